// SPDX-License-Identifier: MIT
// What the store does not have yet of one session, and which snapshots it has.
//
// Changes of the history are gathered as one: the tokens that stay, and those behind
// them, until the journal's writer takes them as one entry. Now and then, with a
// snapshot, all entries are folded into one that has the whole history. It may contain
// changes that entries behind it repeat, since an entry may be applied twice
// (journal_entry.h).
//
// A session whose store has nothing to start from (a fork, an import, one whose writes
// were lost) needs a base first: such an entry. What changes behind it waits until that
// is there; so do streams and answers which depend on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/one_answer.h"
#include "server/engine/request.h"
#include "server/engine/stored_session.h"
#include "server/engine/token_stream.h"

namespace mnemon {

class JournalWriter;
class TokenHistory;
struct Session;

// Safe for concurrent use. Shared, because the writer may have it longest.
class SessionJournal : public std::enable_shared_from_this<SessionJournal> {
 public:
  // The snapshots of a session's own state that the store keeps.
  static constexpr size_t kSnapshots = 2;

  // A journal has fewer entries than this, or fewer tokens in entries behind the first
  // one than in that: what is written more than once stays below what is written once.
  static constexpr int64_t kFewEntries = 256;

  // What the store has of a session.
  struct Stored {
    uint64_t sequence = 0;                  // of the newest entry
    int64_t folded = 0;                     // tokens in the oldest entry
    int64_t entries = 0;                    // behind that one
    int64_t tokens = 0;                     // in those
    std::vector<StoredSnapshot> snapshots;  // oldest first
    std::vector<StoredCheckpoint> checkpoints;
  };

  // `writer` outlives it.
  SessionJournal(JournalWriter& writer, std::string id, Durability durability,
                 Stored stored);
  // Whoever waits is told: SESSION_NOT_FOUND.
  ~SessionJournal();

  const std::string& id() const { return id_; }
  // Tokens in the history, which has been read from the store.
  void SetSize(int64_t tokens);
  // Before other threads know it, for a session whose history the store does not have.
  void NeedBase();
  // Where its record is read.
  void SetSession(std::weak_ptr<Session> session) { session_ = std::move(session); }
  std::shared_ptr<Session> session() const { return session_.lock(); }

  Durability durability() const;
  // To kNone: what the store has of it is deleted. From it: a base is needed. True when
  // something changed.
  bool SetDurability(Durability durability);
  // A change of settings was refused, and perhaps that to the present durability: it is
  // as before, and so is its record again. True: a base is needed.
  bool Restore(Durability before);
  bool durable() const { return durability() != Durability::kNone; }
  // Of the history and of the record: counted before what they change is acknowledged.
  uint64_t changes() const;
  // OK, or why nothing that has to outlive the process can be done with it.
  absl::Status status() const;

  // Of each change of the history, by the thread that makes it (HistoryChange).
  void OnChange(const TokenHistory& history, int64_t kept, int64_t size) noexcept;
  // The stream of the call that holds the session, or null: its tokens are released as
  // they are written, synced for Durability::kAlways.
  void Attach(std::shared_ptr<TokenStream> stream);
  // The end of the attached stream depends on all that has changed so far.
  void EndTurn() noexcept;
  // Its record is not what the store has.
  void TouchRecord() noexcept;

  // `on_synced` is called on the writer's thread; at once where nothing is durable, and
  // where what it waits for cannot come any more: a write was lost, the session is
  // deleted (SESSION_NOT_FOUND), or memory has run out.
  void Flush(WaiterKind kind, OnSynced on_synced);
  // Of a session that has left the directory: all of it leaves the store, now or once
  // that is well again; nothing more is written.
  void Delete(OnSynced on_synced);
  // All of it leaves the store. With OK nothing more is written; with an error it is as
  // before, but for what was on its way when a write failed. SESSION_NOT_FOUND: it was
  // deleted meanwhile. Once the store has the deletion the session leaves the
  // directory, whoever still waits (JournalWriter::Hooks::deleted). False, and nothing
  // is done: it has changed since there were so many `changes`.
  bool TryDelete(std::optional<uint64_t> changes, OnSynced on_synced);

  // A snapshot of the session is copied now, with everything up to here: the sequence
  // that is part of it. On the thread that changes the history. `base`: it is the one
  // that is needed.
  uint64_t BeginSnapshot(bool base);
  // It is made, of this history; the oldest one goes. nullopt, of a base: the state was
  // not kept. False when the session has needed a base since then: nothing refers to
  // it.
  struct MadeSnapshot {
    uint64_t sequence = 0;  // BeginSnapshot
    std::vector<int32_t> history;
    std::optional<StoredSnapshot> snapshot;
  };
  bool PutSnapshot(MadeSnapshot made, bool base);
  // The base cannot be made.
  void BaseFailed(const absl::Status& status);
  // False when nothing is stored any more, or it was put before: nothing refers to its
  // snapshot. Throws std::bad_alloc, then nothing has changed.
  bool PutCheckpoint(StoredCheckpoint checkpoint, std::vector<int32_t> history);
  // It is no checkpoint any more.
  void DropCheckpoint(const std::string& id);

  // A snapshot is wanted; false: it was already. Begun takes the wish back.
  bool Want() { return !wanted_.exchange(true); }
  void Begun() { wanted_ = false; }
  bool needs_base() const;
  // Whether the store has all of the history, and nothing of it is on its way. Told on
  // the writer's thread, once what was written is synced.
  bool AllStored() const;
  // Whether all else is there, too: the record as it is, synced, and no snapshot is
  // wanted. On the writer's thread.
  bool IsQuiet() const;
  bool HasCheckpoint(const std::string& id) const;
  // The name of its snapshot; empty: none is stored.
  std::string SnapshotOfCheckpoint(const std::string& id) const;
  // The newest stored snapshot whose state a session with the present history can go on
  // from; nullopt: none is. `tokens`: in the history.
  std::optional<StoredSnapshot> Usable(int64_t tokens) const;
  // Tokens computed in the newest snapshot that is stored or on its way; 0 without one.
  int64_t snapshot_tokens() const;
  Stored stored() const;
  // Whether the store may have anything of it.
  bool in_store() const;
  // Whether it may be that nothing of it is left there: it is being deleted, or was.
  bool leaves_store() const;
  // One of the snapshots was found damaged.
  void Forget(const std::string& snapshot);

 private:
  friend class JournalWriter;

  enum class State {
    kReady,
    kNeedsBase,  // until PutSnapshot of a base
    kFailed,     // a write was lost
    kDeleted,    // for good
  };
  struct CheckpointHistory {
    std::string id;
    std::vector<int32_t> tokens;
  };
  // What the writer takes to write at once.
  struct Taken {
    bool anything = false;
    bool deleted = false;
    bool again = false;  // there is more to take
    bool record = false;
    bool sync = false;
    uint64_t sequence = 0;  // of the entry; 0: none
    int64_t kept = 0;
    std::vector<int32_t> tokens;
    uint64_t folded = 0;  // entry that becomes `history`, instead of all up to it; 0:
                          // none
    std::vector<int32_t> history;
    std::vector<CheckpointHistory> checkpoints;
    std::vector<std::string> snapshots;            // names that the record has now
    std::vector<std::string> dropped;              // names that it has no more
    std::vector<std::string> dropped_checkpoints;  // ids
    std::vector<OnSynced> waiters;
    // Those for whom nothing comes any more, and why.
    std::vector<OnSynced> refused;
    absl::Status refusal;
    absl::Status failure;  // what changed is lost already
    std::shared_ptr<TokenStream> stream;
    int64_t end = 0;  // tokens of the history up to here
    bool finish = false;
  };

  // By the writer's thread.
  Taken Take();
  // After a commit of what was taken.
  void Written(Taken& taken);
  // It was lost with all that the store had in memory: nothing that `taken` drops has
  // gone yet. Its waiters are told.
  void Lost(const absl::Status& status, Taken taken);
  // The store is well again: true when its base has to be made.
  bool Recover();
  // Once: whether it is unknown if a deletion that was refused is in the store, which
  // alone has the history.
  bool TakeDoubt();

  // Why nothing that waits here can come any more; OK: it can.
  absl::Status EndLocked() const;
  bool HasCheckpointLocked(const std::string& id) const;
  // Whether streams and answers wait for the store.
  bool WaitsLocked() const;
  void ReleaseAll(std::shared_ptr<TokenStream> stream);
  // What the store has is not what the session is, and a base is made.
  void NeedBaseLocked();
  // Forgets what is gathered of the history.
  void DropHistoryLocked();
  void DropSnapshotsLocked();
  void Queue() noexcept;

  JournalWriter& writer_;
  const std::string id_;
  std::atomic<bool> wanted_ = false;
  std::weak_ptr<Session> session_;  // constant once other threads know it

  mutable std::mutex mutex_;  // guards all below
  Durability durability_;
  State state_ = State::kReady;
  uint64_t changes_ = 0;
  absl::Status failure_;     // kFailed: why
  bool unreported_ = false;  // it failed by itself, and its writer is to know
  uint64_t sequence_;
  // Of the stored entries, as in Stored.
  int64_t folded_tokens_;
  int64_t entries_;
  int64_t entry_tokens_;
  // The snapshots that the store has or is about to get, oldest first, and of how many
  // tokens each may still be continued: cuts lower it.
  struct Kept {
    StoredSnapshot snapshot;
    int64_t common = 0;
    bool written = true;
  };
  std::vector<Kept> snapshots_;
  // The same of a snapshot that is being made, from BeginSnapshot on; and whether that
  // is a base.
  int64_t copy_common_ = 0;
  bool copies_base_ = false;
  std::vector<StoredCheckpoint> checkpoints_;

  bool record_ = false;
  bool history_ = false;  // it has changed: kept_ and tokens_
  int64_t kept_ = 0;
  std::vector<int32_t> tokens_;
  int64_t size_ = 0;   // tokens in the history, as of the last change
  uint64_t fold_ = 0;  // entry that becomes fold_history_; 0: none
  std::vector<int32_t> fold_history_;
  std::vector<CheckpointHistory> checkpoint_histories_;
  std::vector<std::string> dropped_;
  std::vector<std::string> dropped_checkpoints_;
  std::vector<OnSynced> waiters_;
  std::shared_ptr<TokenStream> stream_;
  bool finish_ = false;
  bool in_store_;           // the store may have something of it
  bool unstoring_ = false;  // and is to lose that, as the durability is kNone
  bool delete_ = false;     // that is to be deleted
  // By TryDelete, whose callers wait: written or not, and whether the writer has it.
  bool deleting_ = false;
  bool deletion_taken_ = false;
  bool in_doubt_ = false;
  std::vector<OnSynced> deleters_;

  // Guarded by the writer's mutex.
  bool queued_ = false;
  bool failed_ = false;  // among those that wait for the store, by its thread alone
  std::shared_ptr<SessionJournal> next_;
  // Owned by the writer's thread: on its list of those that are written, not synced.
  bool unsynced_ = false;
};

// Lets all that is in a gated stream leave; with an error it ends with that.
void ReleaseEndOf(TokenStream& stream, const absl::Status& status);
// The same when what has changed of the session so far is synced, or lost. Throws
// std::bad_alloc.
void ReleaseWhenSynced(SessionJournal& journal,
                       const std::shared_ptr<TokenStream>& stream);

}  // namespace mnemon
