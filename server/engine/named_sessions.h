// SPDX-License-Identifier: MIT
// Named sessions as methods find them (not expired, awake, with their history where
// that is needed) and as they make them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine_parts.h"
#include "server/engine/expired_sessions.h"
#include "server/requests/request.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class NamedSessions {
 public:
  // Both outlive it.
  NamedSessions(const EngineParts& parts, ExpiredSessions& expiry)
      : parts_(parts), expiry_(expiry) {}

  // These four wait, on the calling thread, for the store where a session sleeps or its
  // history is not in memory. NOT_FOUND; SESSION_EXPIRED; MEMORY_LIMIT, after a wait
  // for room; DATA_LOSS, SESSION_DAMAGED; FAILED_PRECONDITION, MODEL_FINGERPRINT, for a
  // session of a model that is not loaded.

  // The session of the directory, expired or not. NOT_FOUND also for one that the store
  // has and that cannot be served.
  absl::StatusOr<std::shared_ptr<Session>> FindAwake(const std::string& id);
  // Removes expired sessions first.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id);
  // Find, with the history in memory as long as a copy of the pointer exists.
  absl::StatusOr<std::shared_ptr<Session>> FindWithHistory(const std::string& id);
  // The session that an earlier request with this id has made; it does not sleep as
  // long as the pointer exists. Null: none that is still there.
  absl::StatusOr<std::shared_ptr<Session>> FindMadeBy(const std::string& request_id);

  // An empty session that is in no directory yet; an empty id is drawn. UNAVAILABLE,
  // DRAINING; MEMORY_LIMIT.
  absl::StatusOr<std::shared_ptr<Session>> Make(const std::string& id, size_t model);
  // Gives a session that is in no directory yet its place in the store, if there is
  // one. `wanted` absent: `otherwise`. `has_history`: it begins with one.
  // FAILED_PRECONDITION, NO_STORE; the error of a store that takes nothing.
  absl::Status MakeDurable(const std::shared_ptr<Session>& session,
                           const std::optional<Durability>& wanted,
                           Durability otherwise, bool has_history) const;
  Durability default_durability() const;
  // Answers for a session that has joined the directory, once it is synced. `fresh`:
  // this request made it, and where it cannot be stored it is removed, so that the
  // request can be repeated. Else an earlier request made it.
  void AnswerWhenMade(const std::shared_ptr<Session>& session, bool fresh,
                      OnAnswer<SessionFacts> on_done) const;

 private:
  const EngineParts& parts_;
  ExpiredSessions& expiry_;
};

}  // namespace mnemon
