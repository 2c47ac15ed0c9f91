// SPDX-License-Identifier: MIT
// Turns on the process's thread pool: the model runner for which the pool has worked
// least goes next (start-time fair queueing, Goyal, Vin and Cheng 1996, with time
// measured instead of known).
//
// A runner keeps its turn from piece to piece of its work, until another one that waits
// has used less. So a fast model makes many steps for each of a slow one, and a runner
// waits at most for one piece of each other runner, plus the time by which its own use
// exceeds theirs. Only pieces are charged.
//
// A runner that expects work within a moment may keep its turn, and is charged for the
// pause; else one whose streams are full for an instant would wait for a whole piece of
// another (anticipatory scheduling, Iyer and Druschel 2001).
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
    // What its pauses in vain may still take: a share of what it has worked.
    std::chrono::nanoseconds patience{0};
    std::condition_variable granted;
    bool waiting = false;
  };

  // One piece of work of `member`, as a scope: waits until the member has the turn, and
  // charges the time at the end.
  class Piece {
   public:
    Piece(PoolTurns& turns, Member& member) : turns_(turns), member_(member) {
      turns_.Begin(member_);
    }
    ~Piece() { turns_.End(member_); }
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    PoolTurns& turns_;
    Member& member_;
  };

  // `clock` outlives it.
  explicit PoolTurns(const Clock& clock) : clock_(clock) {}

  // How long `member`, which has the turn and for a moment nothing to do, may keep it.
  // Zero when no other waits, when the next has used less, or when its pauses have been
  // in vain too often.
  std::chrono::nanoseconds Patience(const Member& member);
  // Charges a pause in which it kept the turn; in vain: without work at its end.
  void Paused(Member& member, std::chrono::nanoseconds time, bool in_vain);
  // Whether a member waits for its turn.
  bool Wanted() const;
  // The longest piece of the last ten minutes or more, of any member; zero: there was
  // none.
  std::chrono::nanoseconds LongestPiece() const;
  // `member` has nothing to do for now; no effect without the turn.
  void Leave(Member& member);

 private:
  void Begin(Member& member);
  void End(Member& member);
  void AcquireLocked(Member& member, std::unique_lock<std::mutex>& lock);
  // The waiting member that has used least; null when none waits.
  Member* NextLocked() const;
  void GrantLocked(Member* member);

  const Clock& clock_;
  mutable std::mutex mutex_;
  Member* holder_ = nullptr;                     // guarded by mutex_, as all below
  std::chrono::steady_clock::time_point begun_;  // of the last piece
  std::chrono::nanoseconds virtual_time_{0};     // least `used` of one that joins
  std::vector<Member*> waiting_;
  // The longest pieces since window_, and in the time before it.
  std::chrono::steady_clock::time_point window_;
  std::chrono::nanoseconds longest_{0};
  std::chrono::nanoseconds longest_before_{0};
};

}  // namespace mnemon
