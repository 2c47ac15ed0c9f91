// SPDX-License-Identifier: MIT
#include "base/log_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

#include "spdlog/async_logger.h"
#include "spdlog/details/null_mutex.h"
#include "spdlog/details/thread_pool.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr SteadyClock::time_point kNotWriting = SteadyClock::time_point::max();

// Most waiting lines.
constexpr size_t kQueue = 256;
// Interval of looking at the queue during a flush.
constexpr milliseconds kPoll{1};

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %l %v";
constexpr char kJsonPattern[] =
    "{\"time\":\"%Y-%m-%dT%H:%M:%S.%e%z\",\"level\":\"%l\",%v}";

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// Writes everything, however long that takes; false if standard error refuses it.
bool WriteWhole(const spdlog::memory_buf_t& line) {
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

// State shared by callers and the writer thread.
struct LogOutput::Shared {
  const LostLine lost_line;
  spdlog::details::thread_pool* queue = nullptr;  // constant once made
  std::atomic<int64_t> taken = 0;
  std::atomic<int64_t> written = 0;
  std::atomic<int64_t> failed = 0;  // lost for other reasons than a full queue
  int64_t told = 0;                 // lost lines reported so far; used by the writer
  std::atomic<SteadyClock::time_point> writing_since = kNotWriting;
  std::atomic<int64_t> lost_before = 0;  // lost lines when the current wait began

  int64_t lost() const {
    return failed + static_cast<int64_t>(queue->overrun_counter());
  }
};

// Sink for one format. Used only by the writer thread, which no exception may reach.
class LogOutput::Sink final
    : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  Sink(std::shared_ptr<Shared> shared, LogFormat format)
      : base_sink(std::make_unique<spdlog::pattern_formatter>(
            format == LogFormat::kJson ? kJsonPattern : kTextPattern,
            spdlog::pattern_time_type::local, "\n")),
        shared_(std::move(shared)),
        format_(format) {}

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    bool whole = false;
    try {
      if (const int64_t lost = shared_->lost(); lost != shared_->told) {
        const std::string text = shared_->lost_line(format_, lost - shared_->told);
        if (WriteLine({"", spdlog::level::warn, text})) shared_->told = lost;
      }
      whole = WriteLine(line);
    } catch (const std::exception&) {
    }
    ++(whole ? shared_->written : shared_->failed);
  }

  void flush_() override {}

  bool WriteLine(const spdlog::details::log_msg& line) {
    spdlog::memory_buf_t formatted;
    formatter_->format(line, formatted);
    shared_->lost_before = shared_->lost();
    shared_->writing_since = SteadyClock::now();
    const bool whole = WriteWhole(formatted);
    shared_->writing_since = kNotWriting;
    return whole;
  }

  const std::shared_ptr<Shared> shared_;
  const LogFormat format_;
};

LogOutput::LogOutput(LostLine lost_line)
    : shared_(new Shared{.lost_line = lost_line}),
      writer_(std::make_shared<spdlog::details::thread_pool>(kQueue, 1)),
      text_(MakeLogger(LogFormat::kText)),
      json_(MakeLogger(LogFormat::kJson)) {
  shared_->queue = writer_.get();
}

std::shared_ptr<spdlog::logger> LogOutput::MakeLogger(LogFormat format) const {
  auto made = std::make_shared<spdlog::async_logger>(
      "mnemon", std::make_shared<Sink>(shared_, format), writer_,
      spdlog::async_overflow_policy::overrun_oldest);
  made->set_error_handler([shared = shared_](const std::string&) { ++shared->failed; });
  return made;
}

void LogOutput::SetLevel(LogLevel level) {
  text_->set_level(ToSpdlog(level));
  json_->set_level(ToSpdlog(level));
}

bool LogOutput::Takes(LogLevel level) const {
  return text_->should_log(ToSpdlog(level));
}

void LogOutput::Write(LogFormat format, LogLevel level,
                      std::string_view line) noexcept {
  ++shared_->taken;
  try {
    (format == LogFormat::kJson ? json_ : text_)
        ->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (const std::exception&) {
    ++shared_->failed;
  }
}

LogCounts LogOutput::counts() const {
  LogCounts now = {.written = shared_->written, .lost = shared_->lost()};
  now.waiting = std::max<int64_t>(0, shared_->taken - now.written - now.lost);
  const SteadyClock::time_point since = shared_->writing_since;
  if (since != kNotWriting) {
    now.blocked = std::chrono::duration_cast<milliseconds>(SteadyClock::now() - since);
    now.lost_meanwhile = std::max<int64_t>(0, now.lost - shared_->lost_before);
  }
  return now;
}

bool LogOutput::Flush(milliseconds most) const {
  const auto end = std::chrono::steady_clock::now() + most;
  const int64_t taken = shared_->taken;
  while (shared_->written + shared_->lost() < taken) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

}  // namespace mnemon
