// SPDX-License-Identifier: MIT
// All that waits in an engine for an answer which comes later, by kind: what waits
// longer than the bound of its kind gets an error, and so does all that is left when
// the engine ends. So no call waits for ever, whatever does not answer.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mnemon {

enum class WaiterKind {
  kCall,      // a method of a session, for its answer
  kTransfer,  // an export, an import or a proof
  kFlush,     // an answer, for what changed to be in the store
  kRelease,   // the end of a stream, for the same
  kDelete,    // a deletion, for the store
  kUnload,    // the search for unused histories, for the store or a model
  kSnapshot,  // the snapshots of sessions, for the one that is being made
  kRestore,   // a call, for the state of its session
  kGiveWay,   // a call, for another one to leave its session
  kRead,      // a method of a session, for the store to give it
};
inline constexpr std::string_view kWaiterKinds[] = {
    "call",   "transfer", "flush",   "release",  "delete",
    "unload", "snapshot", "restore", "give_way", "read"};
inline constexpr size_t kWaiterKindCount = std::size(kWaiterKinds);

struct WaiterStats {
  struct Kind {
    int64_t waiting = 0;  // now, for not longer than the bound
    int64_t overdue = 0;  // now: were told of an error, and who should answer has not
    int64_t overdue_total = 0;  // since the start
  };
  std::array<Kind, kWaiterKindCount> kinds;  // by WaiterKind

  int64_t open() const;     // all that are not answered by who should
  int64_t overdue() const;  // of all kinds, now
};

// Those that wait, by kind: "flush 2, unload 1"; empty: nothing waits.
std::string TextOf(const WaiterStats& stats);

// One that waits. It is on the list until it is answered, or until nothing refers to
// it.
class Waiter : public std::enable_shared_from_this<Waiter> {
 public:
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 protected:
  Waiter() = default;
  virtual ~Waiter() { Leave(); }
  // Needs no memory.
  void Leave() noexcept;

 private:
  friend class Waiters;

  // Answers with `status`, unless it was answered. Any thread, with no lock held.
  virtual void End(const absl::Status& status) = 0;

  // Constant once other threads know it.
  class Waiters* waiters_ = nullptr;
  WaiterKind kind_ = WaiterKind::kCall;
  std::chrono::steady_clock::time_point since_;
  // Guarded by the mutex of `waiters_`, as all below; the node is here or on a list.
  std::list<Waiter*> node_{this};
  std::list<Waiter*>::iterator at_ = node_.begin();
  bool listed_ = false;
  bool overdue_ = false;
  // By the machine's clock: since when it is known to wait for longer than its bound.
  std::optional<std::chrono::steady_clock::time_point> late_since_;
};

// Safe for concurrent use. Outlives all that is on its lists, or has ended all.
class Waiters {
 public:
  // Longer than any of them waits for a disk that writes, a machine that is loaded and
  // models that get on with their work.
  static constexpr std::chrono::minutes kBound{2};
  // Of kTransfer, whose work takes time in proportion to a state.
  static constexpr std::chrono::minutes kTransferBound{30};
  // For so long, by the machine's clock, one must be found late before it is told: a
  // machine that stood still answers first.
  static constexpr std::chrono::milliseconds kPatience{1000};

  // `clock`, which measures the bounds, outlives it.
  explicit Waiters(const Clock& clock) : clock_(clock) {}

  // Once, before other threads know `waiter`. After EndAll it is ended at once.
  void Add(WaiterKind kind, const std::shared_ptr<Waiter>& waiter);
  // Ends those that have waited too long, with a line of the log for each kind. To be
  // called about once a second.
  void EndOverdue();
  // Ends all, and all that come from now on.
  void EndAll(const absl::Status& status);

  WaiterStats stats() const;
  // Whether any was not answered within its bound, and is not now.
  bool overdue() const { return overdue_now_ > 0; }

 private:
  friend class Waiter;
  using Time = std::chrono::steady_clock::time_point;
  using List = std::list<Waiter*>;

  static std::chrono::nanoseconds BoundOf(WaiterKind kind) {
    return kind == WaiterKind::kTransfer ? kTransferBound : kBound;
  }
  List& ListOfLocked(const Waiter& waiter) {
    const auto kind = static_cast<size_t>(waiter.kind_);
    return waiter.overdue_ ? overdue_[kind] : waiting_[kind];
  }
  void Remove(Waiter& waiter) noexcept;

  const Clock& clock_;
  mutable std::mutex mutex_;                    // guards all below, and parts of Waiter
  std::array<List, kWaiterKindCount> waiting_;  // the longest first
  std::array<List, kWaiterKindCount> overdue_;
  std::atomic<int64_t> overdue_now_ = 0;  // on these; any thread reads it
  std::array<int64_t, kWaiterKindCount> overdue_total_{};
  std::optional<absl::Status> ended_;
};

}  // namespace mnemon
