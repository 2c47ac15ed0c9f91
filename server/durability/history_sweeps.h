// SPDX-License-Identifier: MIT
// Sweeps that unload histories which are in the store and not in use: first of sessions
// without a state in memory, then of others, with their states, each the longest unused
// first. Where sessions themselves take too much, those without a history in memory are
// put to sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "server/durability/store_context.h"
#include "server/sessions/session.h"

namespace mnemon {

// Safe for concurrent use. There is one sweep at a time, on the thread for sweeps.
class HistorySweeps {
 public:
  // `stores` outlives it.
  explicit HistorySweeps(StoreContext& stores)
      : stores_(stores), context_(stores.engine) {}

  // DurableSessions.
  bool GiveUpHistories(int64_t bytes);
  void KeepMemoryFree() noexcept;
  // Whose memory has run out: that of sessions without their histories, or of both.
  enum class Short { kSessions, kResting };
  // Calls `fits` until it returns true, for kPatience at most, while others give memory
  // up. False: there is no room for `bytes` more. Not from the threads that sweep:
  // those of the runners, the writer, the snapshots.
  bool MakeRoom(int64_t bytes, Short of, const std::function<bool()>& fits);
  static constexpr std::chrono::milliseconds kPatience{1000};

  // Whether sessions at rest have taken nearly all that they may.
  bool RestingShort() const;
  int64_t unloaded() const { return unloaded_; }  // sessions
  // No sweep is begun any more, and nobody waits for one.
  void Stop();

 private:
  struct Sweep;

  // Whether sessions, without their histories, take so much that unused ones are to
  // sleep; and some do not.
  bool SessionsShort() const;
  // For those that have waited for the next sweep.
  void SweepAgain();
  void FindUnused(Sweep& sweep) const;
  void UnloadSome(const std::shared_ptr<Sweep>& sweep);
  // Unloads the history of a session, and those of its checkpoints, where the store has
  // them and nobody uses them. On the writer's thread. Returns the bytes freed.
  int64_t Unload(Session& session);
  // Once it has no state.
  void UnloadWritten(const std::shared_ptr<Session>& session,
                     const std::shared_ptr<Sweep>& sweep);
  // One of those that are written together is done, with this status of its journal.
  void OneDone(const std::shared_ptr<Sweep>& sweep,
               const absl::Status& status = absl::OkStatus());
  void Count(Sweep& sweep, int64_t freed);
  // Sessions whose histories are gone.
  void SleepSome(const std::shared_ptr<Sweep>& sweep);
  // Once nothing works on it any more.
  void EndSweep(const Sweep& sweep);

  StoreContext& stores_;
  const EngineContext& context_;
  std::atomic<int64_t> unloaded_ = 0;

  mutable std::mutex mutex_;  // guards all below
  bool stopping_ = false;
  bool sweeping_ = false;
  std::chrono::steady_clock::time_point next_sweep_;  // none before
  bool more_later_ = true;  // some that were in use may leave later
  bool sweep_due_ = false;  // one is to follow, for those that wait
  std::condition_variable freed_;
};

}  // namespace mnemon
