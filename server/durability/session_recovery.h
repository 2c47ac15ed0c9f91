// SPDX-License-Identifier: MIT
// Sessions of the store come back into the directory: all of them at the start, and one
// that sleeps when it is asked for. Their histories stay in the store.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/durability/history_sweeps.h"
#include "server/durability/journal_writer.h"
#include "server/durability/store_context.h"
#include "server/durability/store_survey.h"
#include "server/durability/stored_journal.h"
#include "server/durability/unusable_sessions.h"
#include "server/sessions/session.h"
#include "server/sessions/stored_session.h"

namespace mnemon {

// What a start found.
struct Recovery {
  int64_t sessions = 0;  // that go on
  int64_t expired = 0;   // removed
  // They stay as they are.
  int64_t foreign = 0;  // of models that are not loaded
  int64_t damaged = 0;  // something of them is missing
};

// Safe for concurrent use after Recover.
class SessionRecovery {
 public:
  // All outlive it. `writer`, for the journals, may be constructed later.
  SessionRecovery(StoreContext& stores, JournalWriter& writer,
                  UnusableSessions& unusable, const HistorySweeps& sweeps)
      : stores_(stores),
        context_(stores.engine),
        writer_(writer),
        unusable_(unusable),
        sweeps_(sweeps) {}

  // Puts all sessions of the store into the directory, and serves those that it puts to
  // sleep from then on. The errors of SessionStore::Scan.
  absl::StatusOr<Recovery> Recover();

 private:
  // Sets its model. SESSION_DAMAGED; FAILED_PRECONDITION, MODEL_FINGERPRINT.
  absl::Status CheckUsable(const std::string& id, SurveyedSession& found) const;
  void InsertRecovered(std::map<std::string, SurveyedSession> sessions,
                       Recovery& recovery);
  // A session that no directory knows. Leaves `found` without its journal.
  std::shared_ptr<Session> MakeFound(const std::string& id, SurveyedSession& found);
  std::optional<std::chrono::steady_clock::time_point> ExpiryOf(
      const StoredSession& stored) const;
  // SessionSleep::Waker.
  absl::StatusOr<std::shared_ptr<Session>> ReadSession(const std::string& id);
  // Its newest call, which may cut its history.
  void RecoverCall(Session& session, SurveyedSession& found);

  StoreContext& stores_;
  const EngineContext& context_;
  JournalWriter& writer_;
  UnusableSessions& unusable_;
  const HistorySweeps& sweeps_;
};

}  // namespace mnemon
