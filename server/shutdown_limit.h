// SPDX-License-Identifier: MIT
// The end of a process that is stopped, by a certain time, whatever still runs then:
// a thread that waits for the limit, or for a second signal, and ends the process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/process/process.h"

namespace mnemon {

// What the thread may take once the limit is there.
struct ShutdownPatience {
  // For the last lines of the log.
  std::chrono::milliseconds last_lines{150};
  // Until the kernel ends the process by SIGALRM, where even the thread hangs.
  std::chrono::milliseconds last_resort{250};
};

// One thread.
class ShutdownLimit {
 public:
  // Behind the grace. The log gets what is left of the two seconds that are promised.
  static constexpr std::chrono::milliseconds kBehindGrace{1700};
  // From a second signal to the end.
  static constexpr std::chrono::milliseconds kBehindSecond{500};
  // Exit code of a process that was ended so.
  static constexpr int kExitCode = 1;

  // What the process is doing, on the thread of the limit.
  struct Work {
    // A second signal has come: what can end does so now. Does not wait.
    std::function<void()> hurry;
    // Calls that are open, and what waits by kind (TextOf). Must not wait for what may
    // hang.
    std::function<int64_t()> calls;
    std::function<std::string()> waiting;
  };

  // `signals` outlives it. More patience than the default breaks the promise of two
  // seconds.
  explicit ShutdownLimit(SignalWaiter& signals, ShutdownPatience patience = {})
      : signals_(signals), patience_(patience) {}
  // All has ended in time.
  ~ShutdownLimit();
  ShutdownLimit(const ShutdownLimit&) = delete;
  ShutdownLimit& operator=(const ShutdownLimit&) = delete;

  // From now on the process ends `grace` and kBehindGrace later, or kBehindSecond after
  // another signal, unless it has ended before: with kExitCode, and a line of the log
  // ("shutdown_cut_off") that says what was cut off. Once. Throws std::system_error
  // where there is no thread.
  void Begin(std::chrono::milliseconds grace, Work work);
  // Nothing of the work is called any more.
  void Leave();
  // Until the end; `most` before Begin.
  std::chrono::milliseconds Left(std::chrono::milliseconds most) const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Run();
  [[noreturn]] void End();

  SignalWaiter& signals_;
  const ShutdownPatience patience_;
  std::atomic<Time> limit_ = Time::max();
  std::atomic<bool> over_ = false;
  std::mutex mutex_;
  Work work_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace mnemon
