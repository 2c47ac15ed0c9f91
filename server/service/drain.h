// SPDX-License-Identifier: MIT
// The drain of a server: one path for signals and for Admin.Drain. New work is refused,
// open calls have a grace to finish, and those that are left are ended. There is no way
// back.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/service/open_calls.h"

namespace mnemon {

// The longest grace that a caller may ask for.
inline constexpr std::chrono::seconds kMaxGrace{86400};

// Safe for concurrent use, but for Start and the destructor.
class Drain {
 public:
  struct Options {
    // From its return on new work is refused, and readiness is gone. Called by each
    // Begin and Join, on their threads.
    std::function<void()> refuse;
    // Ends the calls of idle callers. Called every now and then while calls have their
    // grace, on the thread that drains.
    std::function<void()> end_idle;
    // Called once all calls have ended, on the thread that drains; returns by
    // `deadline`.
    std::function<void(std::chrono::steady_clock::time_point deadline)> save;
    // What else waits, for the log: "flush 2"; empty: nothing does.
    std::function<std::string()> waiting;
  };

  // `calls` outlives it.
  Drain(OpenCalls& calls, Options options);
  // Ends the thread, as soon as a drain that has begun is done.
  ~Drain();
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  static constexpr std::chrono::milliseconds kSavingTime{1000};

  // Starts the thread that drains. RESOURCE_EXHAUSTED when there is none.
  absl::Status Start();

  // Begins the drain, or joins the one that has begun, whose grace it may shorten.
  // Score calls that are not open yet and conversations between two turns end with
  // UNAVAILABLE, DRAINING, those of idle
  // callers with ABORTED, CALLER_IDLE, and after the grace all others with UNAVAILABLE,
  // DRAINING. A session keeps what its call has delivered. Then sessions are saved, as
  // far as that is done kSavingTime after the grace. How many calls it cut off is
  // logged.
  void Begin(std::chrono::milliseconds grace);
  // As Begin. Calls `on_drained` once, without a lock: on this thread, before it
  // returns, when all is drained, else on the thread that drains; unless Leave comes
  // first.
  uint64_t Join(std::chrono::milliseconds grace, std::function<void()> on_drained);
  // True: the callback of this Join is not called. False: it was, or is under way.
  bool Leave(uint64_t id);
  // Until all is drained. REQUIRES: it has begun.
  void Wait();

 private:
  void Run();
  void EndCalls();

  OpenCalls& calls_;
  const Options options_;
  std::thread thread_;  // constant after Start

  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;    // guarded by mutex_, as all that follow
  bool closing_ = false;  // by the destructor
  bool drained_ = false;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::function<void()>> waiters_;
};

}  // namespace mnemon
