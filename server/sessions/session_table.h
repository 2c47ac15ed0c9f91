// SPDX-License-Identifier: MIT
// The indices of named sessions: by id, by creating request and by expiry, and counts
// of them. They change together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "server/requests/engine_memory.h"
#include "server/sessions/expired_ids.h"
#include "server/sessions/session.h"
#include "server/sessions/session_expiries.h"
#include "server/sessions/sleeping_sessions.h"

namespace mnemon {

// A session is awake (in memory), asleep (in the store only), or leaving: removed, but
// its journal was not told yet to delete it from the store. The journal must be told
// before another session gets the id.
//
// Everything here, and SessionEntry of each session, is guarded by mutex(), which the
// caller of a method holds. Methods do not allocate unless stated; what they remove is
// returned, so that the caller destroys it after unlocking.
class SessionTable {
 public:
  using Sessions = std::map<std::string_view, std::shared_ptr<Session>>;
  using Requests = std::map<std::string_view, const std::string*>;
  using Ids = std::set<std::string, std::less<>>;

  // Memory for one awake session, allocated before the mutex is locked and destroyed
  // after it is unlocked. Throws std::bad_alloc.
  class Place {
   public:
    explicit Place(const std::shared_ptr<Session>& session);

   private:
    friend class SessionTable;

    Session& session_;
    Sessions by_id_;
    Requests by_request_;
  };

  // For `models` models. `clock` outlives the table; `memory`, which may be null,
  // counts what is remembered of sleeping and expired sessions.
  SessionTable(size_t models, const Clock& clock,
               const std::shared_ptr<EngineMemory>& memory);

  std::mutex& mutex() const { return mutex_; }

  // Awake sessions by id.
  const Sessions& awake() const { return awake_; }
  const SleepingSessions& asleep() const { return asleep_; }
  SleepingSessions& asleep() { return asleep_; }
  // Removed sessions with a journal that has not been told to delete them yet.
  const Sessions& leaving() const { return leaving_; }
  // The id of the session that the request created, awake or asleep. Valid until that
  // session is removed.
  std::optional<std::string_view> CreatedBy(const std::string& request_id) const;
  // Whether an awake or sleeping session has the id, or it is taken until FreeId.
  bool Contains(const std::string& id) const;
  SessionExpiries& expiries() { return expiries_; }
  const SessionExpiries& expiries() const { return expiries_; }
  // Ids of the sessions that expired last. Its methods may allocate.
  ExpiredIds& expired() { return expired_; }
  const ExpiredIds& expired() const { return expired_; }

  int64_t size() const;
  // Sessions of one model, and how many of them have their history in the store only.
  int32_t size(size_t model) const { return sizes_[model]; }
  int32_t stored(size_t model) const { return stored_[model]; }

  // Adds an awake session. REQUIRES: its id and its creating request are not in use.
  void Add(Place& place);
  // Removes an awake session, which the returned node keeps.
  Sessions::node_type Remove(Session& session);
  // Removes an awake session. If it has a journal it is leaving until TakeLeaving.
  // REQUIRES: another owner keeps the session.
  void Retire(Session& session);
  // Null if the session is not leaving: another one may have its id since.
  Sessions::node_type TakeLeaving(const Session& session);
  void SetResident(Session& session, bool resident);

  // Replaces an awake session by `block`. Throws std::bad_alloc, then nothing changed.
  std::shared_ptr<Session> PutToSleep(const std::string& id,
                                      SleepingSessions::Block block);
  // Replaces a sleeping session by an awake one, which expires at SessionEntry::expiry.
  SleepingSessions::Block Wake(Place& place);
  // Removes a sleeping session and moves its id from `id` to those that stay taken
  // until FreeId. nullopt: no such session is asleep.
  std::optional<SleepingSessions::Block> RemoveAsleep(Ids& id);
  Ids::node_type FreeId(const std::string& id) { return given_up_.extract(id); }

 private:
  mutable std::mutex mutex_;
  // Keys, and ids in requests_, are strings of the sessions.
  Sessions awake_;
  Sessions leaving_;
  Requests requests_;  // of awake sessions
  SleepingSessions asleep_;
  Ids given_up_;  // ids of RemoveAsleep
  SessionExpiries expiries_;
  ExpiredIds expired_;
  std::vector<int32_t> sizes_;   // by model
  std::vector<int32_t> stored_;  // by model
};

}  // namespace mnemon
