// SPDX-License-Identifier: MIT
// The journal of one session: writes its changes to the store. The interface that its
// directory, its calls and the runner of its model use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/requests/request.h"
#include "server/sessions/token_history.h"
#include "server/waiting/one_answer.h"
#include "server/waiting/waiters.h"

namespace mnemon {

class TokenStream;

// Safe for concurrent use. Observes the history of its session.
class SessionJournal : public HistoryObserver {
 public:
  virtual ~SessionJournal() = default;

  virtual Durability durability() const = 0;
  bool durable() const { return durability() != Durability::kNone; }
  // kNone deletes the session from the store. A change from kNone needs a base. Returns
  // whether something changed.
  virtual bool SetDurability(Durability durability) = 0;
  // Undoes a change of settings that the store refused: the durability is `before`, and
  // the record is written again. Returns whether a base is needed.
  virtual bool Restore(Durability before) = 0;
  // OK, or why no change of the session can be made durable.
  virtual absl::Status status() const = 0;
  // Whether the store may have anything of the session.
  virtual bool in_store() const = 0;
  // Whether the store has the whole history, the current record and all wanted
  // snapshots, synced. On the writer's thread.
  virtual bool IsQuiet() const = 0;

  // Sets the stream of the call that holds the session; null: none. Its tokens are
  // released once they are written, for Durability::kAlways once they are synced.
  virtual void Attach(std::shared_ptr<TokenStream> stream) = 0;
  // The end of the attached stream is released once all changes so far are written.
  virtual void EndTurn() noexcept = 0;
  // The record of the session has changed and must be written.
  virtual void TouchRecord() noexcept = 0;

  // Calls `on_synced` on the writer's thread once all changes so far are synced. Calls
  // it at once for a session that is not durable, and if they never will be: a write
  // was lost, the session was deleted (SESSION_NOT_FOUND), or memory has run out.
  virtual void Flush(WaiterKind kind, OnSynced on_synced) = 0;
  // Deletes a session that has left the directory from the store, now or once the store
  // works again. Nothing more is written.
  virtual void Delete(OnSynced on_synced) = 0;

  // Deletes the session from the store. After OK nothing more is written. After an
  // error it is as before, except for writes that were under way when one failed.
  // SESSION_NOT_FOUND: it was deleted meanwhile. The session leaves the directory once
  // the store has the deletion, even if the caller no longer waits. False, and nothing
  // is done, if `changes` is given and is not the present number of changes.
  virtual bool TryDelete(std::optional<uint64_t> changes, OnSynced on_synced) = 0;
  // Number of changes of the history and the record. A change is counted before it is
  // acknowledged.
  virtual uint64_t changes() const = 0;

  // Memory that it takes, without the entries that wait in it.
  virtual int64_t bytes() const = 0;

  virtual bool HasCheckpoint(const std::string& id) const = 0;
  // The checkpoint was removed.
  virtual void DropCheckpoint(const std::string& id) = 0;
};

}  // namespace mnemon
