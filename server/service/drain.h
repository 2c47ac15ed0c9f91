// SPDX-License-Identifier: MIT
// The drain of a server, for signals and for Admin.Drain: new work is refused, open
// calls have a grace to finish, and those that are left are ended. Cannot be undone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/service/open_calls.h"

namespace mnemon {

// The longest grace that a caller may ask for.
inline constexpr std::chrono::seconds kMaxGrace{86400};

// Safe for concurrent use, but for Start and the destructor.
class Drain {
 public:
  // All outlive it. `end_idle` ends the calls of idle callers. It is called every now
  // and then while calls have their grace, on the thread that drains.
  Drain(Engine& engine, OpenCalls& calls, std::function<void()> end_idle);
  // Ends the thread, as soon as a drain that has begun is done.
  ~Drain();

  // Starts the thread that drains. RESOURCE_EXHAUSTED when there is none.
  absl::Status Start();

  // `tell` is called by each Begin and Join once new work is refused, before they
  // return; empty: nobody is told. One at a time.
  void Tell(std::function<void()> tell);
  // Begins the drain, or joins the one that has begun, whose grace it may shorten.
  // Score calls that are not open yet and conversations between two turns end with
  // UNAVAILABLE, DRAINING, those of idle callers with ABORTED, CALLER_IDLE, and after
  // the grace all others with UNAVAILABLE, DRAINING. A session keeps what its call has
  // delivered. Then sessions are saved, as far as that is done a second after the
  // grace. How many calls it cut off is logged.
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

  Engine& engine_;
  OpenCalls& calls_;
  const std::function<void()> end_idle_;
  std::thread thread_;  // constant after Start

  std::mutex tell_mutex_;
  std::function<void()> tell_;  // guarded by tell_mutex_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;    // guarded by mutex_, as all that follow
  bool closing_ = false;  // by the destructor
  bool drained_ = false;
  uint64_t next_id_ = 0;
  std::map<uint64_t, std::function<void()>> waiters_;
};

}  // namespace mnemon
