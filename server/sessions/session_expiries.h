// SPDX-License-Identifier: MIT
// The set of sessions that expire, ordered by time.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "server/sessions/session.h"

namespace mnemon {

// Keeps SessionEntry::expiry in step with the set. Guarded by the directory's mutex.
// O(log n). Needs no memory, except for Prepare.
class SessionExpiries {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `clock` outlives it.
  explicit SessionExpiries(const Clock& clock) : clock_(clock) {}

  // Allocates the node with which a session enters the set, before other threads know
  // the session. Throws std::bad_alloc.
  static void Prepare(Session& session);
  static bool IsExpired(const Session& session, Time now) {
    return session.entry.expiry && *session.entry.expiry <= now;
  }

  // Adds the session if it expires: at `expires_at`, or its ttl from now if no call
  // holds it. No effect if it is in the set.
  void Start(Session& session);
  // Adds a session that is not in the set.
  void StartAt(Session& session, Time expiry);
  // Removes the session if it is in the set.
  void Stop(Session& session);

  // When the first session expires, perhaps in the past; nullopt for an empty set.
  std::optional<Time> first() const;
  // The session that expired first; null if none has expired by `now`.
  Session* FirstExpired(Time now) const;

 private:
  const Clock& clock_;
  ExpirySet expiries_;
};

}  // namespace mnemon
