// SPDX-License-Identifier: MIT
// The time limit of a shutdown: a thread that ends the process when the limit has
// passed, or after a second signal, whatever still runs then.
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

// Time that the thread may take after the limit.
struct ShutdownPatience {
  std::chrono::milliseconds last_lines{150};  // to write the log
  // Until SIGALRM ends the process, even if the thread hangs.
  std::chrono::milliseconds last_resort{250};
};

// One thread.
class ShutdownLimit {
 public:
  // From the end of the grace to the limit. The process ends within 2 s of the grace;
  // the log gets the rest.
  static constexpr std::chrono::milliseconds kBehindGrace{1700};
  // From a second signal to the end.
  static constexpr std::chrono::milliseconds kBehindSecond{500};
  // The exit code of a process that the limit ends.
  static constexpr int kExitCode = 1;

  // What the process does meanwhile. Called on the thread of the limit; must not wait
  // for what may hang.
  struct Work {
    std::function<void()> hurry;           // a second signal: ends what it can
    std::function<int64_t()> calls;        // open calls
    std::function<std::string()> waiting;  // open waits by kind: TextOf
  };

  // `signals` outlives it.
  explicit ShutdownLimit(SignalWaiter& signals, ShutdownPatience patience = {})
      : signals_(signals), patience_(patience) {}
  // The shutdown has ended in time.
  ~ShutdownLimit();
  ShutdownLimit(const ShutdownLimit&) = delete;
  ShutdownLimit& operator=(const ShutdownLimit&) = delete;

  // Ends the process `grace` and kBehindGrace from now, or kBehindSecond after another
  // signal, with kExitCode and the log line "shutdown_cut_off". Once. Throws
  // std::system_error if the thread cannot be started.
  void Begin(std::chrono::milliseconds grace, Work work);
  // The functions of the work are no longer called.
  void Leave();
  // Time until the limit, at most `most`; `most` before Begin.
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
