// SPDX-License-Identifier: MIT
// The state of one session's journal: which snapshots the store has, which changes are
// on their way to it, and how the session stands with it. None of it is safe for
// concurrent use: the mutex of the journal guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/durability/journal_entry.h"
#include "server/requests/request.h"
#include "server/sessions/stored_session.h"
#include "server/sessions/token_history.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Snapshots of one session, those of its checkpoints included, that its record names.
// `dropped` gets the names of those that it drops.
class JournalSnapshots {
 public:
  JournalSnapshots(std::vector<StoredSnapshot> snapshots,
                   std::vector<StoredCheckpoint> checkpoints);

  // The history was cut to its first `kept` tokens.
  void OnCut(int64_t kept) noexcept;
  // A copy is made now, from which Add makes a snapshot.
  void BeginCopy();
  // Drops the oldest ones until `stay` are left.
  void DropOldest(size_t stay, std::vector<std::string>& dropped);
  // The snapshot of the copy, which has so many tokens: it is on its way.
  void Add(StoredSnapshot snapshot, int64_t tokens);
  // False: it is not there.
  bool Remove(const std::string& name);
  // With those of the checkpoints.
  void DropAll(std::vector<std::string>& dropped);

  // Adds the names of those on their way to `names`.
  void ListUnwritten(std::vector<std::string>& names) const;
  void SetWritten(const std::vector<std::string>& names);
  // The newest one in the store from whose state the present history, of so many
  // tokens, can go on; nullopt: none is.
  std::optional<StoredSnapshot> Usable(int64_t tokens) const;
  // Tokens of the newest one that the history still has; 0 without one.
  int64_t newest_tokens() const;
  std::vector<StoredSnapshot> List() const;

  const std::vector<StoredCheckpoint>& checkpoints() const { return checkpoints_; }
  // Null: it is not there.
  const StoredCheckpoint* FindCheckpoint(const std::string& id) const;
  // After it AddCheckpoint needs no memory.
  void ReserveCheckpoint() { checkpoints_.reserve(checkpoints_.size() + 1); }
  void AddCheckpoint(StoredCheckpoint checkpoint) {
    checkpoints_.push_back(std::move(checkpoint));
  }
  // False: it is not there. Throws std::bad_alloc; then nothing has changed.
  bool DropCheckpoint(const std::string& id, std::vector<std::string>& dropped);

 private:
  // `common`: of how many tokens it may still be continued; cuts lower it.
  struct Kept {
    StoredSnapshot snapshot;
    int64_t common = 0;
    bool written = true;
  };

  std::vector<Kept> kept_;   // oldest first
  int64_t copy_common_ = 0;  // `common` of the copy, from BeginCopy on
  std::vector<StoredCheckpoint> checkpoints_;
};

// A history that replaces all entries up to one.
struct HistoryFold {
  uint64_t sequence = 0;  // of that entry; 0: none
  std::vector<int32_t> history;
};

struct CheckpointHistory {
  std::string id;
  std::vector<int32_t> tokens;
};

struct JournalChanges {
  bool record = false;
  JournalEntry entry;  // all changes of the history as one
  HistoryFold fold;
  std::vector<CheckpointHistory> checkpoints;
  std::vector<std::string> dropped;              // names of snapshots
  std::vector<std::string> dropped_checkpoints;  // ids
  std::vector<OnSynced> waiters;
  std::shared_ptr<TokenStream> stream;
  bool finish = false;  // the stream ends with these changes
};

// What one commit writes of a session.
struct TakenChanges : JournalChanges {
  bool anything = false;
  bool deleted = false;
  bool again = false;  // there is more to take
  bool sync = false;
  uint64_t sequence = 0;               // of the entry; 0: none
  std::vector<std::string> snapshots;  // names that the record has now
  // Those for whom nothing comes any more, and why.
  std::vector<OnSynced> refused;
  absl::Status refusal;
  absl::Status failure;  // what changed is lost already
  int64_t end = 0;       // tokens of the history up to here
};

// What waits for the writer.
struct GatheredChanges : JournalChanges {
  // HistoryObserver::OnChange. Throws std::bad_alloc; then the entry must be dropped.
  void AddChange(const TokenHistory& history, int64_t kept, int64_t size);
  void DropHistory();
  // All snapshots leave the store; histories of checkpoints that wait do not reach it.
  void DropSnapshots(JournalSnapshots& snapshots);

  // Moves what a commit writes, apart from deletions, into `taken`. The entry gets the
  // number after `sequence`, and `empty` becomes the new buffer of tokens. Needs no
  // memory.
  void Take(TakenChanges& taken, std::vector<int32_t> empty, uint64_t& sequence);

  bool changed = false;      // whether there is an entry
  int64_t history_size = 0;  // tokens, as of the last change
};

// What of a session is to survive, whether the journal can go on from what is in the
// store, and how far the session has left.
struct JournalStanding {
  enum class State {
    kReady,
    kNeedsBase,  // until the journal gets the snapshot of one
    kFailed,     // a write was lost
    kDeleted,    // for good
  };
  // What is in the store is to go.
  struct Deletion {
    bool due = false;        // the writer is to take it
    bool unstoring = false;  // it goes because the durability is kNone
    // TryDelete, whose callers wait: begun, and whether the writer has taken it.
    bool tried = false;
    bool taken = false;
    bool in_doubt = false;  // it was refused, and may be in the store all the same
  };

  bool durable() const { return durability != Durability::kNone; }
  // Whether streams and answers wait for the store.
  bool Waits() const { return durable() || deletion.unstoring; }
  // Whether changes of the history are gathered.
  bool Gathers() const;
  // Why nothing that waits can come any more; OK: it can. `id`: of the session.
  absl::Status End(const std::string& id) const;

  // What the store has is not what the session is, and a base is made.
  void NeedBase();
  // A change is lost that the writer never had.
  void Fail(const absl::Status& status);
  // Takes the deletion that is due, and those who wait for it. True: nothing else of
  // the session is written, so what waits in `gathered` is taken or dropped too.
  bool TakeDeletion(TakenChanges& taken, GatheredChanges& gathered,
                    std::vector<OnSynced>& deleters);

  Durability durability = Durability::kNone;
  State state = State::kReady;
  bool in_store = false;                    // the store may have something of it
  bool copies_base = false;                 // a base is being made
  absl::Status failure = absl::OkStatus();  // kFailed: why
  bool unreported = false;  // it failed by itself, and the writer is to know
  Deletion deletion = {};
};

}  // namespace mnemon
