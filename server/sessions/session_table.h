// SPDX-License-Identifier: MIT
// The indices of named sessions, which change together: by id, by creating request and
// by expiry; counts of them, and the ids of those that expired last.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/memory/byte_budget.h"
#include "server/requests/engine_memory.h"
#include "server/sessions/session.h"
#include "server/sessions/sleeping_sessions.h"

namespace mnemon {

// The set of sessions that expire, in step with SessionEntry::expiry. Guarded by the
// table's mutex. O(log n). Allocates in Prepare only.
class SessionExpiries {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `clock` outlives it.
  explicit SessionExpiries(const Clock& clock) : clock_(clock) {}

  // Allocates the node of a session that no other thread knows. Throws std::bad_alloc.
  static void Prepare(Session& session);
  static bool IsExpired(const Session& session, Time now) {
    return session.entry.expiry && *session.entry.expiry <= now;
  }

  // Adds the session if it expires: at `expires_at`, or its ttl from now if no call
  // holds it. No effect if it is in the set.
  void Start(Session& session);
  // REQUIRES: the session is not in the set.
  void StartAt(Session& session, Time expiry);
  // No effect if the session is not in the set.
  void Stop(Session& session);

  // When the first session expires, perhaps in the past; nullopt: none will.
  std::optional<Time> first() const;
  // The session that expired first; null if none has expired by `now`.
  Session* FirstExpired(Time now) const;

 private:
  const Clock& clock_;
  ExpirySet expiries_;
};

// The ids of the sessions that expired last, at most kMost. Guarded by the table's
// mutex. O(1).
class ExpiredIds {
 public:
  static constexpr size_t kMost = 1024;

  // `charge` counts their memory.
  explicit ExpiredIds(ByteCharge charge) : charge_(std::move(charge)) {}

  // No effect when memory has run out.
  void Remember(const std::string& id);
  void Forget(const std::string& id);
  bool Contains(const std::string& id) const { return places_.contains(id); }

 private:
  ByteCharge charge_;
  std::list<std::string> order_;  // newest last
  // Keys are strings of the list.
  std::unordered_map<std::string_view, std::list<std::string>::iterator> places_;
};

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

  // Memory for one awake session, allocated before locking and destroyed after
  // unlocking. Throws std::bad_alloc.
  class Place {
   public:
    explicit Place(const std::shared_ptr<Session>& session);

   private:
    friend class SessionTable;

    Session& session_;
    Sessions by_id_;
    Requests by_request_;
  };

  // `clock` outlives the table; `memory`, which may be null, counts what is remembered
  // of sleeping and expired sessions.
  SessionTable(size_t models, const Clock& clock,
               const std::shared_ptr<EngineMemory>& memory);

  std::mutex& mutex() const { return mutex_; }

  // Awake sessions by id; null: that one is not awake.
  const Sessions& awake() const { return awake_; }
  std::shared_ptr<Session> FindAwake(std::string_view id) const {
    const auto found = awake_.find(id);
    return found == awake_.end() ? nullptr : found->second;
  }
  const SleepingSessions& asleep() const { return asleep_; }
  SleepingSessions& asleep() { return asleep_; }
  // Removed sessions with a journal that has not been told to delete them yet.
  const Sessions& leaving() const { return leaving_; }
  // The id of the session that the request created, valid until that is removed.
  std::optional<std::string_view> CreatedBy(const std::string& request_id) const;
  // Whether a session has the id, or it is taken until FreeId.
  bool Contains(const std::string& id) const;
  SessionExpiries& expiries() { return expiries_; }
  const SessionExpiries& expiries() const { return expiries_; }
  // Its methods may allocate.
  ExpiredIds& expired() { return expired_; }
  const ExpiredIds& expired() const { return expired_; }

  int64_t size() const;
  // Sessions of one model; `stored`: with the history in the store only.
  int32_t size(size_t model) const { return sizes_[model]; }
  int32_t stored(size_t model) const { return stored_[model]; }

  // Adds an awake session. REQUIRES: its id and its creating request are not in use.
  void Add(Place& place);
  // Removes an awake session; with a journal it is leaving until TakeLeaving. REQUIRES:
  // another owner keeps the session.
  void Retire(Session& session);
  // Null: it is not leaving, and another one may have its id.
  Sessions::node_type TakeLeaving(const Session& session);
  void SetResident(Session& session, bool resident);

  // Replaces an awake session by `block`. Throws std::bad_alloc, then nothing changed.
  std::shared_ptr<Session> PutToSleep(const std::string& id,
                                      SleepingSessions::Block block);
  // Replaces a sleeping session by an awake one, which expires at SessionEntry::expiry.
  SleepingSessions::Block Wake(Place& place);
  // Removes a sleeping session; its id, moved from `id`, stays taken until FreeId.
  // nullopt: no such session is asleep.
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
