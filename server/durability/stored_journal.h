// SPDX-License-Identifier: MIT
// The journal of one session: its state (journal_state.h) under one mutex.
//
// Changes of the history are gathered as one until the journal's writer takes them as
// one entry. Now and then, with a snapshot, all entries are folded into one that has
// the whole history. Later entries may repeat changes that it contains: an entry may be
// applied twice (journal_entry.h).
//
// A session needs a base where the store has nothing to start from: after a fork, an
// import, or lost writes. The base is an entry with the whole history. Later changes
// wait until it is there; so do streams and answers which depend on them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/durability/journal_state.h"
#include "server/requests/request.h"
#include "server/sessions/session_journal.h"
#include "server/sessions/stored_session.h"
#include "server/sessions/token_history.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

class JournalWriter;
struct Session;

// Safe for concurrent use. Shared, because the writer may have it longest.
class StoredJournal final : public std::enable_shared_from_this<StoredJournal>,
                            public SessionJournal {
 public:
  // The snapshots of a session's own state that the store keeps.
  static constexpr size_t kSnapshots = 2;

  // A journal has fewer entries than this, or fewer tokens in entries after the first
  // one than in that: less is written more than once than is written once.
  static constexpr int64_t kFewEntries = 256;

  // What the store has of a session.
  struct StoredEntries {
    uint64_t sequence = 0;  // of the newest entry
    int64_t folded = 0;     // tokens in the oldest entry
    int64_t entries = 0;    // after that one
    int64_t tokens = 0;     // in those
  };
  struct Stored : StoredEntries {
    std::vector<StoredSnapshot> snapshots;  // oldest first
    std::vector<StoredCheckpoint> checkpoints;
  };

  // `writer` outlives it. `needs_base`: the session has a history that the store does
  // not have.
  StoredJournal(JournalWriter& writer, std::string its_id,
                std::weak_ptr<Session> its_session, Durability durability,
                Stored stored, bool needs_base);
  // Whoever waits is told: SESSION_NOT_FOUND.
  ~StoredJournal() override;

  const std::string id;
  // Null once the session is gone, and for a journal that deletes what nobody has.
  const std::weak_ptr<Session> session;

  // Its place among those that have something to write: guarded by the writer's mutex.
  struct InQueue {
    bool queued = false;
    std::shared_ptr<StoredJournal> next;
  };
  InQueue in_queue;
  // The lists that it is on: owned by the writer's thread.
  struct InWriter {
    bool failed = false;    // of those that wait until the store is well again
    bool unsynced = false;  // of those that are written and not synced
  };
  InWriter in_writer;

  // Tokens in the history, which has been read from the store.
  void SetSize(int64_t tokens) {
    std::lock_guard lock(mutex_);
    gathered_.history_size = tokens;
  }

  Durability durability() const override {
    std::lock_guard lock(mutex_);
    return standing_.durability;
  }
  bool SetDurability(Durability durability) override;
  bool Restore(Durability before) override;
  absl::Status status() const override;
  bool in_store() const override {
    std::lock_guard lock(mutex_);
    return standing_.in_store;
  }
  bool IsQuiet() const override;
  int64_t bytes() const override;
  void OnChange(const TokenHistory& history, int64_t kept,
                int64_t size) noexcept override;
  void Attach(std::shared_ptr<TokenStream> stream) override;
  void EndTurn() noexcept override;
  void TouchRecord() noexcept override;
  void Flush(WaiterKind kind, OnSynced on_synced) override;
  void Delete(OnSynced on_synced) override;
  bool HasCheckpoint(const std::string& checkpoint) const override;
  void DropCheckpoint(const std::string& checkpoint) override;

  uint64_t changes() const override {
    std::lock_guard lock(mutex_);
    return changes_;
  }
  bool TryDelete(std::optional<uint64_t> changes, OnSynced on_synced) override;

  // A snapshot of the session, with everything up to here, is copied now. Returns the
  // newest entry that is part of it. On the thread that changes the history. `base`: it
  // is the one that is needed.
  uint64_t BeginSnapshot(bool base);
  // That snapshot is made; the oldest one goes. nullopt: the state of a base, not kept.
  // False when the session has needed a base since then: nothing refers to it.
  bool PutSnapshot(bool base, uint64_t sequence, std::vector<int32_t> history,
                   std::optional<StoredSnapshot> snapshot);
  // The base cannot be made.
  void BaseFailed(const absl::Status& status);
  // False when nothing is stored any more, or it was put before: nothing refers to its
  // snapshot. Throws std::bad_alloc; then nothing has changed.
  bool PutCheckpoint(StoredCheckpoint checkpoint, std::vector<int32_t> history);

  // Whether a snapshot is wanted that was not begun. False: it was so before.
  bool SetWanted(bool wanted) { return wanted_.exchange(wanted) != wanted; }
  bool needs_base() const {
    std::lock_guard lock(mutex_);
    return standing_.state == State::kNeedsBase && standing_.durable();
  }
  // Whether the store has all of the history, and nothing of it is on its way. On the
  // writer's thread, once what was written is synced.
  bool AllStored() const;
  // The name of its snapshot; empty: none is stored.
  std::string SnapshotOfCheckpoint(const std::string& checkpoint) const;
  // JournalSnapshots::Usable, if the session is durable.
  std::optional<StoredSnapshot> Usable(int64_t tokens) const;
  // Tokens computed in the newest snapshot that is stored or on its way; 0 without one.
  int64_t snapshot_tokens() const {
    std::lock_guard lock(mutex_);
    return snapshots_.newest_tokens();
  }
  Stored stored() const;
  // Whether the store may have nothing left of it: it is being deleted, or was.
  bool leaves_store() const;
  // One of the snapshots was found damaged.
  void Forget(const std::string& snapshot);

  // For the writer, on its thread, with no lock held.
  TakenChanges Take();
  // `taken` is committed.
  void Written(TakenChanges& taken);
  // `taken` was lost with all that the store had in memory: nothing that it drops has
  // gone yet. The caller tells its waiters.
  void Lost(const absl::Status& status, TakenChanges& taken);
  // The store is well again. True: a base has to be made.
  bool Recover();
  // Whether a deletion that was refused may be in the store all the same, which alone
  // has the history. True once.
  bool TakeDoubt();

 private:
  using State = JournalStanding::State;

  void Queue() noexcept;

  JournalWriter& writer_;
  std::atomic<bool> wanted_ = false;

  mutable std::mutex mutex_;  // guards all below
  JournalStanding standing_;
  uint64_t changes_ = 0;
  StoredEntries entries_;
  JournalSnapshots snapshots_;
  GatheredChanges gathered_;
  std::vector<OnSynced> deleters_;  // who waits for the deletion
};

// The journal of a session in a store.
StoredJournal& JournalOf(const Session& session);

}  // namespace mnemon
