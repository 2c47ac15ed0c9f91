// SPDX-License-Identifier: MIT
// What the runners of models ask of the sessions in a store, and when.
#pragma once

#include <cstdint>
#include <memory>

#include "server/sessions/session.h"
#include "server/waiting/one_answer.h"
#include "server/waiting/waiters.h"

namespace mnemon {

struct RunnerScope;

// Safe for concurrent use.
class DurableSessions {
 public:
  // Writes a snapshot of the session soon, if there is anything new in it; or the base
  // that it needs. Without memory nothing happens, but who waits for the base is told.
  virtual void RequestSnapshot(const std::shared_ptr<Session>& session) noexcept = 0;
  // The same once the session has rested for EngineOptions::snapshot_rest: until then
  // its journal has what is new, and the next turn would make the snapshot an old one.
  // At once where much is new.
  virtual void RequestAtRest(const std::shared_ptr<Session>& session) noexcept = 0;
  // Releases a session that the caller holds and has changed, once the store has the
  // change. If the store refuses it, the change is taken back first.
  virtual void Settle(const std::shared_ptr<Session>& session, WaiterKind kind,
                      SessionBefore before, OnSynced on_settled) = 0;
  // Memory is short: histories that are in the store and not in use leave memory, of
  // about so many bytes; first those of sessions without a state in memory, then
  // others, with their states, the longest unused first. False: there are none, not
  // even in use. True: who waits for memory is woken once some have left.
  virtual bool GiveUpHistories(int64_t bytes) = 0;
  // A call has ended, or its history grows: where little memory is left some is made.
  // Needs none.
  virtual void KeepMemoryFree() noexcept = 0;

 protected:
  ~DurableSessions() = default;
};

// On the runner's thread.
// Has what is new of a session written, where there is a store. Where the turn `ends`
// and follows another one closely, the snapshot waits until the session has rested.
void StoreTurn(const RunnerScope& scope, const std::shared_ptr<Session>& session,
               bool ends);
// Whether the history of the call has not taken more memory than there is for it.
bool HistoryFits(const RunnerScope& scope, const Call& call);

}  // namespace mnemon
