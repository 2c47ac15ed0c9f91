// SPDX-License-Identifier: MIT
// Memory that sessions at rest give up: a sweep looks for those whose histories are in
// the store and not in use, and unloads them. First those without a state in memory,
// then others, with their states, each the longest unused first. Where sessions
// themselves take too much, those without a history in memory are put to sleep.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "server/durability/store_context.h"
#include "server/durability/stored_histories.h"
#include "server/sessions/session.h"

namespace mnemon {

// Safe for concurrent use. There is one sweep at a time, on the thread for sweeps.
class HistorySweeps {
 public:
  // Both outlive it.
  HistorySweeps(const StoreContext& stores, StoredHistories& histories)
      : stores_(stores), context_(stores.engine), histories_(histories) {}

  // DurableSessions.
  bool GiveUpHistories(int64_t bytes);
  void KeepMemoryFree() noexcept;
  // Whose memory has run out: that of sessions without their histories, or of both.
  enum class Short { kSessions, kResting };
  // Calls `fits` until it returns true, while others give memory up; waits for that, on
  // the calling thread, kPatience at most. False: it does not fit, with `bytes` more.
  // Not from the threads that sweep: those of the runners, the writer, the snapshots.
  bool MakeRoom(int64_t bytes, Short of, const std::function<bool()>& fits);
  static constexpr std::chrono::milliseconds kPatience{1000};

  // Whether sessions at rest have taken nearly all that they may.
  bool RestingShort() const;
  // No sweep is begun any more, and nobody waits for one.
  void Stop();

 private:
  struct Sweep;

  // Whether sessions, without their histories, have taken so much of what they may that
  // those which are not used are to sleep; and some do not.
  bool SessionsShort() const;
  // For those that have waited for the next sweep.
  void SweepAgain();
  void FindUnused(Sweep& sweep) const;
  void UnloadSome(const std::shared_ptr<Sweep>& sweep);
  // Once it has no state.
  void UnloadWritten(const std::shared_ptr<Session>& session,
                     const std::shared_ptr<Sweep>& sweep);
  // One of those that are written together is done.
  void OneDone(const std::shared_ptr<Sweep>& sweep);
  void Count(Sweep& sweep, int64_t freed);
  // Sessions whose histories are gone.
  void SleepSome(const std::shared_ptr<Sweep>& sweep);
  // Once nothing works on it any more.
  void EndSweep(const Sweep& sweep);

  const StoreContext& stores_;
  const EngineContext& context_;
  StoredHistories& histories_;

  mutable std::mutex mutex_;  // guards all below
  bool stopping_ = false;
  bool sweeping_ = false;
  // The last sweep has found too little: until then there is none; and whether some
  // that were in use may leave later.
  std::chrono::steady_clock::time_point next_sweep_;
  bool more_later_ = true;
  bool sweep_due_ = false;  // one is to follow, for those that wait
  std::condition_variable freed_;
};

}  // namespace mnemon
