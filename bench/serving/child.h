// SPDX-License-Identifier: MIT
// A program run by the load tool: bounded in time, and gone when the tool is.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mnemon::serving {

// One thread, which must outlive the program.
class Child {
 public:
  // Starts words[0]; standard output and error go to `log`.
  Child(const std::vector<std::string>& words, const std::string& log);
  // Kills and reaps what still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The exit code, 128 + the signal that ended it, or nullopt when it runs longer.
  std::optional<int> Wait(std::chrono::milliseconds timeout);
  void Terminate();  // SIGTERM
  // User and system time of all its threads so far; 0 when it is gone.
  double CpuSeconds() const;

 private:
  pid_t pid_ = -1;
  std::optional<int> code_;
};

// Standard output of a program that has to end with 0 within `timeout`; else INTERNAL
// or DEADLINE_EXCEEDED with the end of what it wrote. `log` is the path of that.
absl::StatusOr<std::string> RunToEnd(const std::vector<std::string>& words,
                                     const std::string& log,
                                     std::chrono::milliseconds timeout);

}  // namespace mnemon::serving
