// SPDX-License-Identifier: MIT
#include "server/shutdown_limit.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <sys/time.h>

#include "base/log.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Between two looks at the time.
constexpr milliseconds kLook{20};

// Makes the kernel end the process by SIGALRM in `time`; zero: never.
void SetAlarm(milliseconds time) {
  const auto ms = static_cast<long>(time.count());
  const itimerval timer = {
      .it_interval = {},
      .it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

ShutdownLimit::~ShutdownLimit() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
  // After the thread, which sets it again for a second signal.
  SetAlarm(milliseconds(0));
}

void ShutdownLimit::Begin(milliseconds grace, Work work) {
  {
    std::lock_guard lock(mutex_);
    work_ = std::move(work);
  }
  limit_ = SteadyClock::now() + grace + kBehindGrace;
  SetAlarm(grace + kBehindGrace + patience_.last_resort);
  thread_ = std::thread([this] { Run(); });
}

void ShutdownLimit::Leave() {
  std::lock_guard lock(mutex_);
  work_ = {};
}

milliseconds ShutdownLimit::Left(milliseconds most) const {
  const Time limit = limit_;
  if (limit == Time::max()) return most;
  const auto left =
      std::chrono::duration_cast<milliseconds>(limit - SteadyClock::now());
  return std::clamp(left, milliseconds(0), most);
}

void ShutdownLimit::Run() {
  bool second = false;
  while (!over_) {
    if (SteadyClock::now() >= limit_.load()) End();
    if (signals_.WaitFor(static_cast<int>(kLook.count())) == 0) continue;
    // A third signal finds nothing more to hurry.
    if (std::exchange(second, true)) End();
    limit_ = std::min(limit_.load(), SteadyClock::now() + kBehindSecond);
    SetAlarm(kBehindSecond + patience_.last_resort);
    LogWarning("second signal: the process ends now");
    std::lock_guard lock(mutex_);
    if (work_.hurry) work_.hurry();
  }
}

void ShutdownLimit::End() {
  {
    std::lock_guard lock(mutex_);
    LogEvent(LogLevel::kError, "shutdown_cut_off",
             {{"calls", work_.calls ? work_.calls() : 0},
              {"waiting", work_.waiting ? work_.waiting() : std::string()}});
  }
  FlushLog(patience_.last_lines);
  std::_Exit(kExitCode);
}

}  // namespace mnemon
