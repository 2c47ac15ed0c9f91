// SPDX-License-Identifier: MIT
// The directory of named sessions, one per engine: it creates, finds, lists and removes
// them. Its parts, under the same mutex, serve the calls, the updates, the checkpoints
// and the sleep of sessions.
//
// A removed session is deleted from the store before another one gets its id.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/sessions/session.h"
#include "server/sessions/session_calls.h"
#include "server/sessions/session_sleep.h"
#include "server/sessions/session_table.h"
#include "server/sessions/session_updates.h"

namespace mnemon {

// Safe for concurrent use. O(log n) for each of n sessions that a method looks at; it
// holds the mutex for a bounded number of them.
class SessionDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // At most `sessions` sessions for each of `models` models. `clock` outlives it;
  // `memory`, which may be null, counts what it remembers. `post`: see SessionCalls.
  SessionDirectory(size_t models, int32_t sessions, const Clock& clock,
                   const std::shared_ptr<EngineMemory>& memory = nullptr,
                   SessionCalls::Post post = {})
      : clock_(clock),
        limit_(sessions),
        table_(models, clock, memory),
        calls_(table_, clock, std::move(post)),
        updates_(table_),
        checkpoints_(table_, clock),
        sleep_(table_, clock) {}

  SessionCalls& calls() { return calls_; }
  const SessionCalls& calls() const { return calls_; }
  SessionUpdates& updates() { return updates_; }
  SessionCheckpoints& checkpoints() { return checkpoints_; }
  SessionSleep& sleep() { return sleep_; }

  // Adds a session at rest, and sets its creation time, expiry and charge. If the same
  // request_id created a session that still exists, with the same request_text and,
  // unless it was drawn, the same id, returns that one. Does not read the store.
  // Errors:
  //   ALREADY_EXISTS: REQUEST_ID_REUSED, SESSION_EXISTS for a taken id.
  //   RESOURCE_EXHAUSTED, SESSION_LIMIT.
  //   ABORTED, SESSION_BUSY: the session that the request created is asleep.
  absl::StatusOr<std::shared_ptr<Session>> Insert(std::shared_ptr<Session> session);
  // Adds a session that the store has, whatever the limits. It expires at `expiry`,
  // unless it is used first. False: the id is taken.
  bool Restore(std::shared_ptr<Session> session, std::optional<Time> expiry);

  // The id of the session that the request created; empty: there is none.
  std::string MadeBy(const std::string& request_id) const;
  // The model of a session, which may be asleep or expired; nullopt: there is none.
  std::optional<size_t> ModelOf(const std::string& id) const;
  bool Contains(const std::string& id) const;
  // SessionSleep::Find.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id) {
    return sleep_.Find(id);
  }
  // The journal of an awake session; else null.
  std::shared_ptr<SessionJournal> JournalOf(const std::string& id) const;

  // Up to `count` sessions in the order of ids, from the id `first` on. `next` becomes
  // where the following ones begin, empty at the end. A session that is created or
  // removed meanwhile may be missing. A sleeping session stays asleep and gives a copy
  // that describes it. Left out are expired sessions and those that the store cannot
  // read. UNAVAILABLE, NO_ANSWER: the store hangs.
  absl::StatusOr<std::vector<std::shared_ptr<Session>>> From(const std::string& first,
                                                             size_t count,
                                                             std::string& next) const;
  // Calls `visit` for each awake session, copied likewise, with no lock held.
  void ForEachAwake(
      const std::function<void(const std::shared_ptr<Session>&)>& visit) const;

  // Removes the session; the caller has the journal delete it, then calls Left. After
  // any removal its holder may go on until ModelRunner::Forget. Errors as of Find;
  // ABORTED, ETAG_MISMATCH, unless `etag` is empty or the present one.
  absl::StatusOr<std::shared_ptr<Session>> Remove(const std::string& id,
                                                  const std::string& etag = "");
  // The journal was told to delete it: its id is free.
  void Left(const Session& session);
  // Removes a session and has its journal delete it. False: it was removed before.
  bool Retire(const std::shared_ptr<Session>& session);
  // Retires and returns awake sessions that have expired, the first to expire first, at
  // most kExpiredAtOnce: call it until it returns none. Does not read the store. Throws
  // std::bad_alloc, then none was removed.
  static constexpr size_t kExpiredAtOnce = 16;
  std::vector<std::shared_ptr<Session>> RemoveExpired();
  // The same for one session; null: it is not awake or has not expired.
  std::shared_ptr<Session> RemoveIfExpired(const std::string& id);
  // When the first session expires, perhaps in the past; nullopt: none will.
  std::optional<Time> NextExpiry() const;
  // The time until then, or zero.
  Time::duration UntilExpiry() const;

  // From now on the history is in memory, or in the store only; false: a call holds the
  // session, or it was removed.
  void SetResident(Session& session);
  bool SetStored(Session& session);

  struct Facts {
    bool held = false;
    bool detached = false;  // at rest, and its newest call is open
    int64_t tokens = 0;     // in the history
    std::chrono::system_clock::time_point last_use_time;  // created, held or released
    std::optional<Time> expiry;                           // SessionEntry::expiry
    std::optional<std::chrono::milliseconds> ttl;
    std::optional<SessionSampling> sampling;
    bool paused = false;
  };
  // As of one moment. `session` may have been removed.
  Facts FactsOf(const Session& session) const;
  // Fills in what the mutex guards.
  void Describe(const Session& session, StoredSession& stored) const;

  int64_t size() const;                // named sessions
  int64_t size(size_t model) const;    // of one model
  int64_t stored(size_t model) const;  // of them, with their history in the store only

 private:
  static constexpr size_t kCopiedAtOnce = 64;

  // Has the journal of a retired session delete it. False: no memory; RemoveExpired
  // does it later, or Insert before it takes the id.
  bool DeleteStored(const Session& session);

  const Clock& clock_;
  const int32_t limit_;
  SessionTable table_;
  SessionCalls calls_;
  SessionUpdates updates_;
  SessionCheckpoints checkpoints_;
  SessionSleep sleep_;
};

}  // namespace mnemon
