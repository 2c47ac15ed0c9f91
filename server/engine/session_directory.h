// SPDX-License-Identifier: MIT
// The directory of named sessions, one per engine: by id for look-up and paging, by
// expiry for removal, by the request that made them. Records whether a call holds a
// session.
//
// A session of which the store has everything can be asleep: then the directory has its
// name and little else in memory. Whoever looks for it wakes it up, on his thread, by
// reading the store.
//
// What the store has of a session that leaves is deleted before another session gets
// its id: of those that expire, or are retired, by the directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/engine/expired_ids.h"
#include "server/engine/session.h"
#include "server/engine/sleeping_sessions.h"

namespace mnemon {

// Safe for concurrent use. Of n sessions, an operation takes O(log n); one on several
// sessions takes that for each of them, and holds the mutex for a bounded number at a
// time.
class SessionDirectory {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Posts callbacks, as CallbackThreads does.
  using Post = std::function<void(CallbackList&)>;

  // At most `sessions` sessions for each of `models` models. `clock` outlives it;
  // `memory`, which may be null, counts what it remembers; what `post` refers to is
  // there while calls hold sessions.
  SessionDirectory(size_t models, int32_t sessions, const Clock& clock,
                   const std::shared_ptr<EngineMemory>& memory = nullptr,
                   Post post = {})
      : clock_(clock),
        limit_(sessions),
        post_(std::move(post)),
        asleep_(ChargeOf(memory, &EngineMemory::sessions)),
        expired_(ChargeOf(memory, &EngineMemory::sessions)),
        counts_(models),
        stored_(models) {}

  // Adds a session at rest, and sets its creation time, its expiry and its charge. When
  // the same request_id made a session that still exists, returns that one if its
  // request_text, and the id unless it was drawn, are the same, else ALREADY_EXISTS,
  // REQUEST_ID_REUSED. ALREADY_EXISTS, SESSION_EXISTS, for a taken id;
  // RESOURCE_EXHAUSTED, SESSION_LIMIT. Does not read the store: where the session that
  // the request has made sleeps it is ABORTED, SESSION_BUSY.
  absl::StatusOr<std::shared_ptr<Session>> Insert(std::shared_ptr<Session> session);
  // The id of the session that the request has made; empty: there is none.
  std::string MadeBy(const std::string& request_id) const;
  // The model of a session, which may sleep or have expired; nullopt: there is none.
  std::optional<size_t> ModelOf(const std::string& id) const;
  // Adds a session that the store has, whatever the limits, with its times as they are.
  // It expires at `expiry`, unless it is used first. False: the id is taken.
  bool Restore(std::shared_ptr<Session> session, std::optional<Time> expiry);
  // The history of a session is in memory from now on.
  void SetResident(Session& session);
  // It is in the store alone from now on. False: a call holds the session, or it was
  // removed.
  bool SetStored(Session& session);

  // Makes a session of what the store has of it, which no directory knows yet. Called
  // without a lock. The errors of the store.
  using Waker =
      std::function<absl::StatusOr<std::shared_ptr<Session>>(const std::string& id)>;
  // Before any session sleeps.
  void SetWaker(Waker waker) { waker_ = std::move(waker); }
  // Puts a session to sleep and returns how many bytes less it takes then; 0, and
  // nothing has changed, unless it is there, at rest, without a history in memory, its
  // journal is quiet, and nobody else has it. On the journal writer's thread. Throws
  // std::bad_alloc, likewise.
  int64_t Sleep(const std::string& id);
  // Null unless the session is there and awake.
  std::shared_ptr<SessionJournal> JournalOf(const std::string& id) const;
  // Of a session for its record in the store: what is guarded here.
  void Describe(const Session& session, StoredSession& stored) const;
  // NOT_FOUND: SESSION_EXPIRED for one whose time has come, removed or not, and for the
  // ids of ExpiredIds, else SESSION_NOT_FOUND. Wakes it up: those of Waker.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& id);
  // Removes the session; a call that holds it may go on until the runner gets it by
  // ModelRunner::Forget, as those of all that remove one. Errors as Find; ABORTED,
  // ETAG_MISMATCH, unless `etag` is empty or the present one. The caller has its
  // journal delete it, and calls Left.
  absl::StatusOr<std::shared_ptr<Session>> Remove(const std::string& id,
                                                  const std::string& etag = "");
  // Its deletion is on the way to the store.
  void Left(const Session& session);
  // Removes one of which the store has nothing any more; false: it was removed before.
  bool Remove(Session& session);
  // Likewise, and has its journal delete what the store has.
  bool Retire(const std::shared_ptr<Session>& session);
  // Removes one that sleeps, without waking it up. Its id stays taken until FreeId.
  // False: it does not sleep.
  bool RemoveAsleep(const std::string& id);
  void FreeId(const std::string& id);
  // Retires and returns sessions at rest, awake, whose ttl has passed, the longest
  // expired first. At most kExpiredAtOnce: call it until it returns none. Does not read
  // the store. Throws std::bad_alloc, then none was removed.
  static constexpr size_t kExpiredAtOnce = 16;
  std::vector<std::shared_ptr<Session>> RemoveExpired();
  // The same of one; null: it is not awake, or its time has not come.
  std::shared_ptr<Session> RemoveIfExpired(const std::string& id);
  // Wakes one up that sleeps and whose time has come, so that it can be removed; no
  // effect on others. The errors of Waker.
  absl::Status WakeExpired(const std::string& id);
  // Ids of such, at most kExpiredAtOnce. None: there are none just now, or those that
  // are there were looked at in this second.
  std::vector<std::string> FindExpiredAsleep();
  // When the first session expires, which may be in the past; absent when none will: a
  // session without a ttl, or held by a call, does not expire.
  std::optional<Time> NextExpiry() const;
  // How long that is from now on; zero when it is past, or none will.
  Time::duration UntilExpiry() const;
  // Up to `count` sessions, by id, whose ids are `first` or come after it. Copied in
  // parts: one that is made or removed meanwhile may be among them or not. Of those
  // that sleep, which stay asleep, copies that tell what they are; one that the store
  // does not give is left out, and so are those whose time has come. `next`: where the
  // sessions behind them begin, empty where there are none. UNAVAILABLE, NO_ANSWER: the
  // store hangs.
  absl::StatusOr<std::vector<std::shared_ptr<Session>>> From(const std::string& first,
                                                             size_t count,
                                                             std::string& next) const;
  // The same of those that are awake, behind `after`.
  std::vector<std::shared_ptr<Session>> AwakeAfter(const std::string& after,
                                                   size_t count) const;

  // Changes settings: `ttl` and `expires_at` together, or neither. ABORTED,
  // ETAG_MISMATCH; NOT_FOUND when the session was removed.
  struct Settings {
    struct Expiration {
      std::optional<std::chrono::milliseconds> ttl;
      std::optional<Time> expires_at;
    };
    std::optional<Expiration> expiration;
    std::optional<std::optional<SessionSampling>> sampling;
    std::optional<bool> paused;
  };
  // The change: to be settled once the store has it, or has refused it.
  absl::StatusOr<uint64_t> Update(Session& session, const std::string& etag,
                                  const Settings& settings);
  // `stored` false: it is taken back; where it was the newest, the settings and the
  // etag are those from before it. The durability that it began with is then the
  // answer.
  std::optional<Durability> Settle(Session& session, uint64_t update, bool stored);

  // Adds a checkpoint, unless the session remembers this request id: then, and where it
  // did not, returns the one of the request. ALREADY_EXISTS: CHECKPOINT_EXISTS,
  // REQUEST_ID_REUSED for another id; RESOURCE_EXHAUSTED, CHECKPOINT_LIMIT; NOT_FOUND
  // when the session was removed.
  absl::StatusOr<SessionCheckpoint> AddCheckpoint(Session& session,
                                                  SessionCheckpoint checkpoint,
                                                  bool drawn_id);
  // Takes one back that was added; false: it was taken back before, or the session was
  // removed.
  bool RemoveCheckpoint(Session& session, const Session& at);
  // NOT_FOUND, CHECKPOINT_NOT_FOUND.
  absl::StatusOr<SessionCheckpoint> FindCheckpoint(const Session& session,
                                                   const std::string& id) const;
  std::vector<SessionCheckpoint> CheckpointsOf(const Session& session) const;
  bool Contains(const std::string& id) const;

  // Differs after every change of the session.
  std::string EtagOf(const Session& session) const;

  // One call at a time holds a session. False: another one does, whatever its request
  // id: whether that stays is known when the call ends. NOT_FOUND when the session was
  // removed; FAILED_PRECONDITION, SESSION_PAUSED; ALREADY_EXISTS, REQUEST_REPEATED when
  // it remembers this request id, unless the call resumes that one; of a call that
  // resumes, ABORTED, STREAM_RESUMED when another has begun to after it.
  struct Resume {
    std::shared_ptr<Call> call;
    uint64_t number;  // of BeginResume
  };
  absl::StatusOr<bool> Hold(Session& session, const std::string& request_id,
                            const Resume* resume = nullptr);
  // Of the calls that resume the newest one of a session, only that may hold it from
  // now on which has begun to last: this one.
  uint64_t BeginResume(Session& session);
  bool IsNewestResume(const Session& session, uint64_t number) const;
  // The one that holds the session; null: none does.
  std::shared_ptr<Call> ResumerOf(const Session& session) const;
  // Posts `turn` once the session is not held, or was removed, or, of calls that
  // resume, another waits in its place. False, without an effect: what holds it neither
  // resumes nor has this request id, and may go on.
  bool AwaitTurn(Session& session, const std::string& request_id, CallbackList& turn);
  // Of a session that was removed: posts the turn that waits, whatever becomes of what
  // holds it. ModelRunner::Forget calls it.
  void PostTurn(Session& session);
  // Ends a hold. The session rests: with a ttl it expires that long after now. The
  // holder's request id is remembered if `taken`, or after SetJoined, in place of the
  // oldest one where there is no memory for one more. False when it was removed
  // meanwhile. REQUIRES: the caller holds it.
  bool Release(Session& session, bool taken);
  // The holder scores, and its tokens join the history, which had `from` before them.
  // From now on the session is described with that. REQUIRES: the caller holds it.
  void SetJoined(Session& session, int64_t from);
  // What is kept of the newest calls is as it was `before` a change. REQUIRES: the
  // caller holds the session.
  void TakeBack(Session& session, const SessionBefore& before);
  // Of the newest call that took the session, if it scored with this request id.
  std::optional<int64_t> ScoredFrom(const Session& session,
                                    const std::string& request_id) const;
  // The history has gone back. What was forgotten.
  std::optional<int64_t> ForgetScored(Session& session);

  // The record of its newest call, null where that cannot be resumed. Set by the
  // runner: when it admits a call, and when that ends or is detached; and by tasks of
  // sessions.
  void SetNewestCall(Session& session, std::shared_ptr<const CallRecord> record);
  std::shared_ptr<const CallRecord> NewestCall(const Session& session) const;
  // What a request id is to a session.
  enum class IdUse {
    kUnknown,
    kHolds,       // of the call that holds it
    kRemembered,  // of an earlier call
  };
  IdUse UseOf(const Session& session, const std::string& request_id) const;

  struct Facts {
    bool held = false;      // by a call that waits, runs or delivers
    bool detached = false;  // at rest, and its newest call is open
    int64_t tokens = 0;     // in the history
    // Of its creation, or of the last Hold or Release.
    std::chrono::system_clock::time_point last_use_time;
    // Absent where it does not expire now: without an expiration, with a ttl while it
    // is held, and after its removal.
    std::optional<std::chrono::steady_clock::time_point> expiry;
    std::optional<std::chrono::milliseconds> ttl;
    std::optional<SessionSampling> sampling;
    bool paused = false;
  };
  // As of one moment. `session` may have been removed.
  Facts FactsOf(const Session& session) const;
  int64_t size() const;              // named sessions, now
  int64_t size(size_t model) const;  // of one model
  // Of them, those whose histories are in the store alone.
  int64_t stored(size_t model) const;
  // Of all, those that sleep.
  int64_t asleep() const;
  int64_t asleep_bytes() const;  // that they take in memory

 private:
  static constexpr size_t kCopiedAtOnce = 64;

  // Keys are texts of the sessions.
  using Sessions = std::map<std::string_view, std::shared_ptr<Session>>;

  // The end unless it is there and could sleep, as far as the directory knows.
  Sessions::iterator FindIdleLocked(const std::string& id);
  // One that was read from the store becomes what it was. Its expiry is set, and it is
  // not in the set.
  static void Complete(Session& session, const SleepingFacts& kept);
  enum class Woken {
    kYes,
    kGone,    // it is not, or no longer, the one that slept
    kNoRoom,  // sessions have all the memory that they may have
  };
  // `in_any_case`: whether or not there is room.
  Woken PutAwake(const std::shared_ptr<Session>& session, uint64_t sleep,
                 bool in_any_case);
  absl::StatusOr<std::shared_ptr<Session>> FindOrWake(const std::string& id,
                                                      bool expired_too);

  bool ContainsLocked(const std::string& id) const;
  std::string EtagLocked(const Session& session) const;
  bool ReleaseLocked(Session& session, bool taken);
  static bool ExpiredLocked(const Session& session, Time now) {
    return session.expiry && *session.expiry <= now;
  }
  // REQUIRES: another owner keeps the session. Needs no memory.
  Sessions::node_type EraseLocked(Session& session);
  // The same of one of which the store may have something.
  void RetireLocked(Session& session);
  // Has the journal of such a one delete that, unless this was done. False: memory has
  // run out; RemoveExpired does it later, or Insert before it takes the id.
  bool DeleteStored(const Session& session);
  // Of a session that is not in the set, puts it there if it expires now; takes it out.
  // Need no memory.
  void StartExpiryLocked(Session& session);
  void StopExpiryLocked(Session& session);

  const Clock& clock_;
  const int32_t limit_;
  const Post post_;
  mutable std::mutex mutex_;  // guards all below, and parts of Session
  Sessions sessions_;
  // Those that were retired, until their deletions are on the way to the store.
  Sessions leaving_;
  std::set<std::string, std::less<>> given_up_;  // ids of RemoveAsleep
  ExpirySet expiries_;
  // The id of the session that each request made, of those that are awake; keys and ids
  // are texts of sessions.
  std::map<std::string_view, const std::string*> requests_;
  Waker waker_;
  SleepingSessions asleep_;
  uint64_t sleeps_ = 0;
  ExpiredIds expired_;
  std::vector<int32_t> counts_;  // per model
  std::vector<int32_t> stored_;  // of them, those whose histories are not in memory
};

}  // namespace mnemon
