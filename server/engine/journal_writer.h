// SPDX-License-Identifier: MIT
// The thread that writes journals of sessions to the store: all that has changed
// meanwhile in one commit, so that many sessions share a write and a sync.
//
// After a failed write the store takes nothing more. All journals whose changes may be
// lost then fail (their calls end, and others are refused) until the store is well
// again, which the thread tries every kRetry; each of them then needs a base.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/callback_threads.h"
#include "server/engine/session_journal.h"
#include "server/engine/store_stats.h"
#include "server/engine/waiters.h"
#include "server/state/session_store.h"

namespace mnemon {

// Safe for concurrent use.
class JournalWriter {
 public:
  // Called on the writer's thread.
  struct Hooks {
    // The bytes of the record; nullopt: the session is gone.
    std::function<std::optional<std::string>(const SessionJournal&)> record;
    // Its call has to end with `status`.
    std::function<void(const SessionJournal&, const absl::Status& status)> lost;
    // Its base has to be made.
    std::function<void(const std::shared_ptr<SessionJournal>&)> needs_base;
    // Its deletion is in the store, and perhaps was refused all the same. Those who
    // wait for it are told afterwards.
    std::function<void(const SessionJournal&)> deleted;
  };
  static constexpr std::chrono::milliseconds kRetry{500};
  // Between two commits.
  static constexpr std::chrono::milliseconds kPace{1};
  // Bytes that one commit gathers, about.
  static constexpr size_t kCommitBytes = size_t{4} << 20;

  // All outlive it. Throws std::system_error when there is no thread.
  JournalWriter(SessionStore& store, CallbackThreads& callbacks, Waiters& waiters,
                Hooks hooks);
  // Writes what is queued, as far as the store takes it.
  ~JournalWriter() { Stop(); }
  void Stop();

  // OK, or why nothing can be written.
  absl::Status status() const;
  // Waits until all that was queued is written, or lost; false at `deadline`.
  bool WaitIdle(std::chrono::steady_clock::time_point deadline);
  JournalStats stats() const;

 private:
  friend class SessionJournal;
  using Journals = std::vector<std::shared_ptr<SessionJournal>>;

  // Needs no memory.
  void Queue(std::shared_ptr<SessionJournal> journal) noexcept;

  void Run();
  // Takes all that are queued.
  std::shared_ptr<SessionJournal> Await();
  void WriteAll(std::shared_ptr<SessionJournal> first);
  struct Batch;
  void Add(const std::shared_ptr<SessionJournal>& journal, Batch& batch);
  void Write(Batch& batch);
  void Fail(Batch& batch, const absl::Status& status);
  // Those of a written batch that the store did not take.
  void FailSome(Batch& batch);
  // Until the store is well again; once.
  void KeepFailed(const std::shared_ptr<SessionJournal>& journal);
  void TryRecover();
  bool IsDeleted(SessionJournal& journal);

  SessionStore& store_;
  CallbackThreads& callbacks_;
  Waiters& waiters_;
  const Hooks hooks_;

  mutable std::mutex mutex_;  // guards all down to `stats_`
  std::condition_variable work_;
  std::condition_variable idle_;
  std::shared_ptr<SessionJournal> first_;
  SessionJournal* last_ = nullptr;
  bool busy_ = false;
  bool stopping_ = false;
  absl::Status status_;
  JournalStats stats_;

  // Owned by the thread.
  Journals unsynced_;
  Journals failed_;
  std::chrono::steady_clock::time_point last_commit_;
  std::chrono::steady_clock::time_point next_try_;  // of TryRecover

  std::thread thread_;
};

}  // namespace mnemon
