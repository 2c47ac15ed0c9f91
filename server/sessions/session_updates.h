// SPDX-License-Identifier: MIT
// Settings and checkpoints of sessions: checks, defaults, limits, and changes, each of
// which gives the session another etag.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/requests/engine_options.h"
#include "server/requests/request.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"

namespace mnemon {

// Safe for concurrent use.
class SessionUpdates {
 public:
  // New values; what is absent stays as it is.
  struct Settings {
    std::optional<Expiration> expiration;
    std::optional<std::optional<SessionSampling>> sampling;
    std::optional<bool> paused;
  };

  // `table` outlives it.
  explicit SessionUpdates(SessionTable& table) : table_(table) {}

  // Applies `settings` and returns the number of the change, for Settle. ABORTED,
  // ETAG_MISMATCH, unless `etag` is empty or the present one; NOT_FOUND: the session
  // was removed.
  absl::StatusOr<uint64_t> Update(Session& session, const std::string& etag,
                                  const Settings& settings);
  // Ends an update: the store has it (`stored`), or has refused it, which undoes it and
  // returns the durability of before. If a newer one is open, that follows when it is
  // undone.
  std::optional<Durability> Settle(Session& session, uint64_t update, bool stored);

  // Differs after every change of the session.
  std::string EtagOf(const Session& session) const;
  // Whether `etag` is empty or the present one. REQUIRES: the caller holds the mutex of
  // the session's table.
  static bool MatchesLocked(const Session& session, const std::string& etag);

 private:
  static std::string EtagLocked(const Session& session);

  SessionTable& table_;
};

// The checkpoints of sessions. Safe for concurrent use. O(SessionEntry::kCheckpoints).
class SessionCheckpoints {
 public:
  // `table` and `clock` outlive it.
  SessionCheckpoints(SessionTable& table, const Clock& clock)
      : table_(table), clock_(clock) {}

  // Adds a checkpoint and returns it, or the one that its request id has added before.
  // Errors:
  //   ALREADY_EXISTS, REQUEST_ID_REUSED: that has another id, and `drawn_id` is false;
  //     CHECKPOINT_EXISTS: the id is taken.
  //   RESOURCE_EXHAUSTED, CHECKPOINT_LIMIT.
  //   NOT_FOUND: the session was removed.
  absl::StatusOr<SessionCheckpoint> Add(Session& session, SessionCheckpoint checkpoint,
                                        bool drawn_id);
  // Undoes Add. False: it was undone before, or the session was removed.
  bool Remove(Session& session, const Session& at);
  // NOT_FOUND, CHECKPOINT_NOT_FOUND.
  absl::StatusOr<SessionCheckpoint> Find(const Session& session,
                                         const std::string& id) const;
  // Oldest first.
  std::vector<SessionCheckpoint> Of(const Session& session) const;

 private:
  SessionTable& table_;
  const Clock& clock_;
};

// INVALID_ARGUMENT names the member, also for an expire_time in the past. `vocab` is V.
absl::Status CheckSettings(const SessionSettings& settings, int64_t vocab,
                           const Clock& clock);

// With the defaults and limits of the engine.
Expiration ExpirationOf(const SessionSettings& settings, const EngineOptions& options);

// Applies settings to a session that no other thread knows. REQUIRES: checked settings.
void Apply(const SessionSettings& settings, const EngineOptions& options,
           Session& session);

// `settings`, with absent members from `defaults`.
SessionSettings WithDefaults(SessionSettings settings, const SessionSettings& defaults);

// A text for comparing repeated requests: equal for equal settings.
std::string TextOf(const SessionSettings& settings);

}  // namespace mnemon
