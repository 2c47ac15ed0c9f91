// SPDX-License-Identifier: MIT
// The checkpoints of sessions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"

namespace mnemon {

// Safe for concurrent use. O(SessionEntry::kCheckpoints).
class SessionCheckpoints {
 public:
  // `table` and `clock` outlive it.
  SessionCheckpoints(SessionTable& table, const Clock& clock)
      : table_(table), clock_(clock) {}

  // Adds a checkpoint and returns it. If its request id has added one before, adds
  // none and returns that. Errors:
  //   ALREADY_EXISTS, REQUEST_ID_REUSED: the request has added one with another id, and
  //     `drawn_id` is false; CHECKPOINT_EXISTS: the id is taken.
  //   RESOURCE_EXHAUSTED, CHECKPOINT_LIMIT.
  //   NOT_FOUND: the session was removed.
  absl::StatusOr<SessionCheckpoint> Add(Session& session, SessionCheckpoint checkpoint,
                                        bool drawn_id);
  // Undoes Add. False: it was undone before, or the session was removed.
  bool Remove(Session& session, const Session& at);
  // NOT_FOUND, CHECKPOINT_NOT_FOUND.
  absl::StatusOr<SessionCheckpoint> Find(const Session& session,
                                         const std::string& id) const;
  // All of a session, oldest first.
  std::vector<SessionCheckpoint> Of(const Session& session) const;

 private:
  SessionTable& table_;
  const Clock& clock_;
};

}  // namespace mnemon
