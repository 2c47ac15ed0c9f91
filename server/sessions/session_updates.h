// SPDX-License-Identifier: MIT
// Changes of a session's settings, and its etag.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/requests/request.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"

namespace mnemon {

// Safe for concurrent use.
class SessionUpdates {
 public:
  // New values; what is absent stays as it is.
  struct Settings {
    struct Expiration {
      std::optional<std::chrono::milliseconds> ttl;
      std::optional<std::chrono::steady_clock::time_point> expires_at;
    };
    std::optional<Expiration> expiration;
    std::optional<std::optional<SessionSampling>> sampling;
    std::optional<bool> paused;
  };

  // `table` outlives it.
  explicit SessionUpdates(SessionTable& table) : table_(table) {}

  // Applies `settings` and returns the number of the change, which is settled once the
  // store has it or has refused it. ABORTED, ETAG_MISMATCH, unless `etag` is empty or
  // the present one; NOT_FOUND when the session was removed.
  absl::StatusOr<uint64_t> Update(Session& session, const std::string& etag,
                                  const Settings& settings);
  // Ends an update, which is undone unless the store has it (`stored`). If no newer one
  // is open, the settings and the etag are then as before it, and the durability of
  // before is returned; else that follows when the newer one is undone.
  std::optional<Durability> Settle(Session& session, uint64_t update, bool stored);

  // Differs after every change of the session.
  std::string EtagOf(const Session& session) const;
  // The same. REQUIRES: the caller holds the mutex of the session's table.
  static std::string EtagLocked(const Session& session);

 private:
  void ApplyLocked(Session& session, const Settings& settings,
                   std::shared_ptr<const SessionSampling>& sampling);
  void UndoLocked(Session& session, SessionEntry::Undo& before);

  SessionTable& table_;
};

}  // namespace mnemon
