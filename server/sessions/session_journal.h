// SPDX-License-Identifier: MIT
// The journal of one session, which writes its changes to the store, as its directory,
// its calls and the runner of its model see it.
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
  // kNone deletes the session from the store. A change from kNone needs a base. False:
  // nothing changed.
  virtual bool SetDurability(Durability durability) = 0;
  // After a change of settings that the store refused: the durability is `before`, and
  // the record is written again. Returns whether a base is needed.
  virtual bool Restore(Durability before) = 0;
  // OK, or why no change of the session can be made durable.
  virtual absl::Status status() const = 0;
  // Whether the store may have anything of the session.
  virtual bool in_store() const = 0;
  // Whether the store has history, record and all wanted snapshots, synced. On the
  // writer's thread.
  virtual bool IsQuiet() const = 0;

  // Sets the stream of the holder; null: none. Its tokens are released once they are
  // written, for Durability::kAlways once they are synced.
  virtual void Attach(std::shared_ptr<TokenStream> stream) = 0;
  // The end of the attached stream is released once all changes so far are written.
  virtual void EndTurn() noexcept = 0;
  // The record has changed and must be written.
  virtual void TouchRecord() noexcept = 0;

  // Calls `on_synced` on the writer's thread once all changes so far are synced; at
  // once if the session is not durable, and if they never will be: a write was lost,
  // the session was deleted (SESSION_NOT_FOUND), or memory has run out.
  virtual void Flush(WaiterKind kind, OnSynced on_synced) = 0;
  // Deletes a removed session from the store, now or once the store works again.
  // Nothing more is written.
  virtual void Delete(OnSynced on_synced) = 0;

  // Deletes the session from the store; it leaves the directory once that has happened,
  // even if the caller no longer waits. After OK nothing more is written. After an
  // error it is as before, except for writes that were under way. SESSION_NOT_FOUND: it
  // was deleted meanwhile. False, and nothing is done: `changes` is not the present
  // number.
  virtual bool TryDelete(std::optional<uint64_t> changes, OnSynced on_synced) = 0;
  // Changes of history and record, counted before they are acknowledged.
  virtual uint64_t changes() const = 0;

  virtual int64_t bytes() const = 0;  // of memory, without entries that wait
  virtual bool HasCheckpoint(const std::string& id) const = 0;
  // The checkpoint was removed.
  virtual void DropCheckpoint(const std::string& id) = 0;
};

}  // namespace mnemon
