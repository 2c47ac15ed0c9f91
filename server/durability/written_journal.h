// SPDX-License-Identifier: MIT
// The journal of a session as the thread that writes it sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/streams/token_stream.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

struct Session;

// The history of a checkpoint on its way to the store.
struct CheckpointHistory {
  std::string id;
  std::vector<int32_t> tokens;
};

// What one commit writes of a session.
struct TakenChanges {
  bool anything = false;
  bool deleted = false;
  bool again = false;  // there is more to take
  bool record = false;
  bool sync = false;
  uint64_t sequence = 0;  // of the entry; 0: none
  int64_t kept = 0;
  std::vector<int32_t> tokens;
  uint64_t folded = 0;  // the entry that becomes `history` and replaces all before it;
                        // 0: none
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

// Shared, because the writer may have it longest. The virtual functions are called on
// the writer's thread, with no lock held.
class WrittenJournal {
 public:
  const std::string& id() const { return id_; }
  // Null once the session is gone, and for a journal that deletes what nobody has.
  std::shared_ptr<Session> session() const { return session_.lock(); }

  virtual TakenChanges Take() = 0;
  // `taken` is committed.
  virtual void Written(TakenChanges& taken) = 0;
  // `taken` was lost with all that the store had in memory: nothing that it drops has
  // gone yet. The waiters that it has are told by the caller.
  virtual void Lost(const absl::Status& status, TakenChanges taken) = 0;
  // The store is well again. True: a base has to be made.
  virtual bool Recover() = 0;
  // Whether a deletion that was refused may be in the store all the same, which alone
  // has the history. True once.
  virtual bool TakeDoubt() = 0;

  // Its place among those that have something to write: guarded by the writer's mutex.
  struct InQueue {
    bool queued = false;
    std::shared_ptr<WrittenJournal> next;
  };
  InQueue in_queue;
  // The lists that it is on: owned by the writer's thread.
  struct InWriter {
    bool failed = false;    // of those that wait until the store is well again
    bool unsynced = false;  // of those that are written and not synced
  };
  InWriter in_writer;

 protected:
  WrittenJournal(std::string id, std::weak_ptr<Session> session)
      : id_(std::move(id)), session_(std::move(session)) {}
  ~WrittenJournal() = default;

 private:
  const std::string id_;
  const std::weak_ptr<Session> session_;
};

}  // namespace mnemon
