// SPDX-License-Identifier: MIT
// Output of log lines to standard error: a bounded queue, and a writer thread. A
// standard error that nobody reads loses lines, the oldest first, and blocks nobody.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"

namespace spdlog {
class logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace mnemon {

// Safe for concurrent use. Never destroyed: threads may log while the process ends, and
// the writer may wait for ever.
class LogOutput {
 public:
  // Makes the line that reports how many were lost, in the form that Write takes.
  using LostLine = std::string (*)(LogFormat format, int64_t lines);

  // Throws std::system_error if no thread can be started.
  explicit LogOutput(LostLine lost_line);
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  void SetLevel(LogLevel level);
  bool Takes(LogLevel level) const;
  // `line`: the text, or the members of the JSON object after "level". Does not wait.
  void Write(LogFormat format, LogLevel level, std::string_view line) noexcept;

  LogCounts counts() const;
  bool Flush(std::chrono::milliseconds most) const;

 private:
  struct Shared;
  class Sink;

  std::shared_ptr<spdlog::logger> MakeLogger(LogFormat format) const;

  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<spdlog::details::thread_pool> writer_;
  const std::shared_ptr<spdlog::logger> text_, json_;
};

}  // namespace mnemon
