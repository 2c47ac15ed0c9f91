// SPDX-License-Identifier: MIT
// Reads of one session in a store that end within a bound, whatever the disk does: they
// happen on threads of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/session_store.h"
#include "server/waiting/waiters.h"

namespace mnemon {

// Safe for concurrent use. A read ends with UNAVAILABLE, NO_ANSWER, where nothing has
// come within the bound of WaiterKind::kRead; while one hangs, within kPatience, and at
// once where all threads have a read to do.
class BoundedReads {
 public:
  // Both outlive it. Throws std::system_error when there are no threads.
  BoundedReads(SessionStore& store, Waiters& waiters);
  // Waits for reads that hang.
  ~BoundedReads();
  BoundedReads(const BoundedReads&) = delete;
  BoundedReads& operator=(const BoundedReads&) = delete;

  static constexpr size_t kThreads = 8;
  static constexpr std::chrono::milliseconds kPatience{5000};

  // From now on who reads gets UNAVAILABLE, DRAINING, those that wait included.
  void Stop();

  // As those of the store.
  absl::StatusOr<std::optional<std::string>> Get(StoreTable table,
                                                 const SessionKey& session,
                                                 std::string_view name);
  absl::StatusOr<std::string> GetSnapshot(const std::string& name);
  // SessionStore::Scan of the session's journal, which is in memory before it is
  // visited.
  absl::Status ScanJournal(const SessionKey& session, const SessionStore::Visit& visit,
                           const SessionStore::Unreadable& unreadable);

 private:
  // What `read` returns on one of the threads. It may outlive the call, so it owns what
  // it uses.
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
