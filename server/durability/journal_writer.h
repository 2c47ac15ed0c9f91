// SPDX-License-Identifier: MIT
// The thread that writes journals of sessions to the store: all that has changed
// meanwhile in one commit, so that many sessions share a write and a sync.
//
// After a failed write the store takes nothing more. All journals whose changes may be
// lost then fail (their calls end, and others are refused) until the store is well
// again, which the thread tries every kRetry; each of them then needs a base.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/durability/journal_state.h"
#include "server/durability/store_stats.h"
#include "server/store/session_store.h"
#include "server/streams/token_stream.h"
#include "server/waiting/callback_threads.h"
#include "server/waiting/waiters.h"

namespace mnemon {

class StoredJournal;
struct Session;

// Safe for concurrent use.
class JournalWriter {
 public:
  // Called on the writer's thread with the session of a journal, unless it is gone.
  struct Hooks {
    using Call = std::function<void(const std::shared_ptr<Session>&)>;
    std::function<std::string(const Session&)> record;  // the bytes of its record
    // Its call has to end with `status`.
    std::function<void(const std::shared_ptr<Session>&, const absl::Status& status)>
        lost;
    Call needs_base;  // its base has to be made
    // Its deletion is in the store, and perhaps was refused all the same. Those who
    // wait for it are told afterwards.
    Call deleted;
  };
  static constexpr std::chrono::milliseconds kRetry{500};
  static constexpr std::chrono::milliseconds kPace{1};  // between two commits
  // Bytes that one commit gathers, about.
  static constexpr size_t kCommitBytes = size_t{4} << 20;

  // The arguments outlive it. Throws std::system_error when there is no thread.
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

  // For the journals. Queue: there is something to take; needs no memory.
  void Queue(std::shared_ptr<StoredJournal> journal) noexcept;
  // Nothing of the stream waits for the store any more.
  void ReleaseAll(std::shared_ptr<TokenStream> stream);
  // The deletion of its session is in the store. On the writer's thread.
  void OnDeleted(const StoredJournal& journal);
  Waiters& waiters() { return waiters_; }  // for the store

 private:
  using Journals = std::vector<std::shared_ptr<StoredJournal>>;
  // One commit, and what it writes of one session.
  struct Batch;
  struct Part {
    std::shared_ptr<StoredJournal> journal;
    TakenChanges taken;
  };

  void Run();
  // Takes all that are queued.
  std::shared_ptr<StoredJournal> Await();
  void WriteAll(std::shared_ptr<StoredJournal> first);
  void Add(const std::shared_ptr<StoredJournal>& journal, Batch& batch);
  void Write(Batch& batch);
  void Fail(Batch& batch, const absl::Status& status);
  // Those of a written batch that the store did not take.
  void FailSome(Batch& batch);
  // What they have changed is lost: their sessions are told, then those who wait.
  void Lose(std::span<Part> parts, const absl::Status& status);
  // Until the store is well again; once.
  void KeepFailed(const std::shared_ptr<StoredJournal>& journal);
  void TryRecover();

  SessionStore& store_;
  CallbackThreads& callbacks_;
  Waiters& waiters_;
  const Hooks hooks_;

  mutable std::mutex mutex_;  // guards all down to `stats_`
  std::condition_variable work_;
  std::condition_variable idle_;
  std::shared_ptr<StoredJournal> first_;
  StoredJournal* last_ = nullptr;
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
