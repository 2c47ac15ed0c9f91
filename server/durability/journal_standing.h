// SPDX-License-Identifier: MIT
// How a session stands with the store: what is to survive, whether the journal can go
// on from what is there, and how far the session has left.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/durability/gathered_changes.h"
#include "server/durability/written_journal.h"
#include "server/requests/request.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Not safe for concurrent use: guarded by the mutex of its journal.
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
