// SPDX-License-Identifier: MIT
// Turns on the process's thread pool, fair by time between the model runners: the one
// that has used the pool least goes next (start-time fair queueing, Goyal, Vin and
// Cheng 1996, with time measured instead of known).
//
// A runner keeps its turn from step to step, the time between them included, until
// another one that waits has used less. So a fast model makes many steps for each of a
// slow one, and a runner waits at most for one piece of work of each other runner, plus
// the time by which its own use exceeds theirs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace mnemon {

// Safe for concurrent use.
class PoolTurns {
 public:
  // One runner's account, used by one thread. Guarded by the mutex of its PoolTurns.
  // Must not be destroyed while it waits or has the turn.
  class Member {
    friend class PoolTurns;
    std::chrono::nanoseconds used{0};  // virtual time
    std::condition_variable granted;
    bool waiting = false;
  };

  // Gives up the turn, where `member` has it, at the end of a scope.
  class LeaveAtEnd {
   public:
    LeaveAtEnd(PoolTurns& turns, Member& member) : turns_(turns), member_(member) {}
    ~LeaveAtEnd() { turns_.Leave(member_); }
    LeaveAtEnd(const LeaveAtEnd&) = delete;
    LeaveAtEnd& operator=(const LeaveAtEnd&) = delete;

   private:
    PoolTurns& turns_;
    Member& member_;
  };

  // `clock` outlives it.
  explicit PoolTurns(const Clock& clock) : clock_(clock) {}

  // Before each piece of work: waits until `member` has the turn; returns at once when
  // it keeps it.
  void Acquire(Member& member);
  // `member` has nothing to do for now, or gives up; no effect without the turn.
  void Leave(Member& member);

 private:
  void ChargeLocked();
  // The waiting member that has used least; null when none waits.
  Member* NextLocked() const;
  void GrantLocked(Member* member);

  const Clock& clock_;
  std::mutex mutex_;
  Member* holder_ = nullptr;                     // guarded by mutex_, as all below
  std::chrono::steady_clock::time_point since_;  // charged up to here
  std::chrono::nanoseconds virtual_time_{0};     // least `used` of one that joins
  std::vector<Member*> waiting_;
};

}  // namespace mnemon
