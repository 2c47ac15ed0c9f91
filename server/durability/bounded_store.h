// SPDX-License-Identifier: MIT
// A store whose reads of one session end within a bound, whatever the disk does: they
// happen on threads of their own, and who asks does not wait for longer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/session_store.h"
#include "server/waiting/waiters.h"

namespace mnemon {

// Safe for concurrent use. Get, GetSnapshot and a Scan of one session end with
// UNAVAILABLE, NO_ANSWER, where nothing has come within the bound of WaiterKind::kRead;
// while such a read still hangs others wait for kPatience, and where all threads have
// one to do, not at all. So as many reads are left behind as there are threads. What a
// Scan finds is in memory before it is visited. All else is as in the store.
class BoundedStore final : public SessionStore {
 public:
  // Both outlive it. Throws std::system_error when there are no threads.
  BoundedStore(SessionStore& store, Waiters& waiters);
  // Waits for reads that hang.
  ~BoundedStore() override;
  BoundedStore(const BoundedStore&) = delete;
  BoundedStore& operator=(const BoundedStore&) = delete;

  static constexpr size_t kThreads = 8;
  static constexpr std::chrono::milliseconds kPatience{5000};

  // From now on who reads gets UNAVAILABLE, DRAINING, those that wait included.
  void StopReading();

  absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                 const SessionKey& session,
                                                 std::string_view name) override;
  absl::Status Scan(StoreTable table, const StoreRange& range, const Visit& visit,
                    const Unreadable& unreadable) override;
  absl::StatusOr<std::string> GetSnapshot(const std::string& name) override;

  absl::Status Commit(std::span<SessionChanges> sessions, Sync sync) override {
    return store_.Commit(sessions, sync);
  }
  absl::StatusOr<std::string> PutSnapshot(std::string_view bytes) override {
    return store_.PutSnapshot(bytes);
  }
  void DropSnapshot(const std::string& name) override { store_.DropSnapshot(name); }
  void CountSnapshots(const std::vector<std::string>& names,
                      bool remove_others) override {
    store_.CountSnapshots(names, remove_others);
  }
  bool healthy() const override { return store_.healthy(); }
  absl::Status Recover() override { return store_.Recover(); }
  bool needs_upgrade() const override { return store_.needs_upgrade(); }
  absl::Status FinishUpgrade() override { return store_.FinishUpgrade(); }
  absl::Status Compact() override { return store_.Compact(); }
  bool AwaitWhole(int seconds) override { return store_.AwaitWhole(seconds); }
  StoreCondition condition() const override { return store_.condition(); }
  int64_t memory_bytes() const override { return store_.memory_bytes(); }

 private:
  // Of type T, by `read` on one of the threads, which may outlive the call: it owns
  // what it uses.
  template <class T>
  absl::StatusOr<T> Read(std::function<absl::StatusOr<T>()> read);
  void Loop();

  SessionStore& store_;
  Waiters& waiters_;

  std::mutex mutex_;  // guards all below
  std::condition_variable work_;
  std::condition_variable answered_;
  std::deque<std::function<void()>> queue_;
  size_t reading_ = 0;  // threads that do
  bool stopped_ = false;
  bool ending_ = false;
  std::vector<std::thread> threads_;  // constant from the constructor to the destructor
};

}  // namespace mnemon
