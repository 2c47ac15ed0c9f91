// SPDX-License-Identifier: MIT
// The open waits for answers in an engine, by kind, and the thread that ends those that
// exceed the time limit of their kind. So no call waits forever.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"

namespace mnemon {

enum class WaiterKind {
  kCall,      // a session method waits for its answer
  kTransfer,  // an export, an import or a verification
  kFlush,     // an answer waits until changes are in the store
  kRelease,   // the end of a stream waits for the same
  kDelete,    // a deletion waits for the store
  kUnload,    // the sweep for unused histories waits for the store or a model
  kSnapshot,  // snapshot writing waits for the snapshot that is being made
  kRestore,   // a call waits for the state of its session
  kGiveWay,   // a call waits until another one leaves its session
  kRead,      // a session method waits until the store has read the session
};
inline constexpr std::string_view kWaiterKinds[] = {
    "call",   "transfer", "flush",   "release",  "delete",
    "unload", "snapshot", "restore", "give_way", "read"};
inline constexpr size_t kWaiterKindCount = std::size(kWaiterKinds);

struct WaiterStats {
  struct Kind {
    int64_t waiting = 0;        // now, within the time limit
    int64_t overdue = 0;        // now: ended with an error, and still not answered
    int64_t overdue_total = 0;  // since the start
  };
  std::array<Kind, kWaiterKindCount> kinds;  // by WaiterKind

  int64_t overdue() const;  // of all kinds, now
};

// Open waits, such as "flush 2, unload 1"; empty: none.
std::string TextOf(const WaiterStats& stats);

// A wait for an answer. It is on a list until it is answered or destroyed.
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

  // Answers with `status`, unless it was answered. Called by any thread, without a
  // lock.
  virtual void End(const absl::Status& status) = 0;

  // Constant once other threads know it.
  class Waiters* waiters_ = nullptr;
  WaiterKind kind_ = WaiterKind::kCall;
  std::chrono::steady_clock::time_point since_;
  // All below is guarded by the mutex of `waiters_`. The node is here or on a list.
  std::list<Waiter*> node_{this};
  std::list<Waiter*>::iterator at_ = node_.begin();
  bool listed_ = false;
  bool overdue_ = false;
  // When it was first found to exceed its time limit, by the machine's clock.
  std::optional<std::chrono::steady_clock::time_point> late_since_;
};

// Safe for concurrent use but for Start and EndAll. Outlives all waiters on its lists,
// or has ended them.
class Waiters {
 public:
  // Time limits: more than any wait takes with a working disk, a loaded machine and
  // models that make progress. A transfer takes time in proportion to a state.
  static constexpr std::chrono::minutes kBound{2};
  static constexpr std::chrono::minutes kTransferBound{30};
  // How long a waiter must be found late, by the machine's clock, before it is ended:
  // so a machine that was suspended can answer first.
  static constexpr std::chrono::milliseconds kPatience{1000};

  // `clock`, which measures the time limits, outlives it.
  explicit Waiters(const Clock& clock) : clock_(clock) {}

  // Starts the thread that ends overdue waiters. It never waits for the store, nor for
  // a lock that is held while the store is read; it may wait for memory where an answer
  // makes a call go on. Throws std::system_error.
  void Start();
  // Adds a waiter, once, before other threads know it. After EndAll it is ended at
  // once.
  void Add(WaiterKind kind, const std::shared_ptr<Waiter>& waiter);
  // Ends the thread, if there is one, all waiters, and all that are added from now on.
  void EndAll(const absl::Status& status);

  WaiterStats stats() const;
  // Whether any waiter that was ended is still not answered.
  bool overdue() const { return overdue_now_ > 0; }

 private:
  friend class Waiter;
  using Time = std::chrono::steady_clock::time_point;
  using List = std::list<Waiter*>;

  List& ListOfLocked(const Waiter& waiter) {
    const auto kind = static_cast<size_t>(waiter.kind_);
    return waiter.overdue_ ? overdue_[kind] : waiting_[kind];
  }
  // Logs a line for each kind that has some.
  void EndOverdue();
  void Run();

  const Clock& clock_;
  mutable std::mutex mutex_;                    // guards all below, and parts of Waiter
  std::array<List, kWaiterKindCount> waiting_;  // longest wait first
  std::array<List, kWaiterKindCount> overdue_;
  std::atomic<int64_t> overdue_now_ = 0;  // length of these lists; any thread reads it
  std::array<int64_t, kWaiterKindCount> overdue_total_{};
  std::optional<absl::Status> ended_;
  std::condition_variable changed_;  // ended_ was set
  std::thread thread_;
};

}  // namespace mnemon
