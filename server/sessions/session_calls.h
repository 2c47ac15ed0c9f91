// SPDX-License-Identifier: MIT
// The calls on each session: which one holds it, which one waits to resume, and what
// the session remembers of earlier ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/sessions/call_record.h"
#include "server/sessions/session.h"
#include "server/sessions/session_table.h"
#include "server/waiting/callback_threads.h"

namespace mnemon {

// Safe for concurrent use. Each method changes or reads one session, in O(1) or in the
// number of request ids that the session remembers.
class SessionCalls {
 public:
  // Posts callbacks, as CallbackThreads does. Called without a lock.
  using Post = std::function<void(CallbackList&)>;

  // `table` and `clock` outlive it; so does what `post` refers to while calls hold
  // sessions.
  SessionCalls(SessionTable& table, const Clock& clock, Post post)
      : table_(table), clock_(clock), post_(std::move(post)) {}

  // A call that resumes the newest call of a session.
  struct Resume {
    std::shared_ptr<Call> call;
    uint64_t number;  // of BeginResume
  };
  // Gives the session to a call; one call at a time holds it. False: another call holds
  // it. That takes precedence over a repeated request id, because the outcome of the
  // other call is open. Errors:
  //   NOT_FOUND: the session was removed.
  //   ALREADY_EXISTS, REQUEST_REPEATED: the session remembers this request id, and the
  //     call does not resume.
  //   FAILED_PRECONDITION, SESSION_PAUSED.
  //   ABORTED, STREAM_RESUMED: the call resumes, and a later one has begun to.
  absl::StatusOr<bool> Hold(Session& session, const std::string& request_id,
                            const Resume* resume = nullptr);
  // Ends a hold. If the session has a ttl, it expires that long after now. The holder's
  // request id is remembered if `taken`, or after SetJoined; it replaces the oldest one
  // if there is no memory for one more. False: the session was removed meanwhile.
  // REQUIRES: the caller holds the session.
  bool Release(Session& session, bool taken);

  // Returns the number of a new attempt to resume the newest call of the session. From
  // now on earlier attempts cannot hold it.
  uint64_t BeginResume(Session& session);
  bool IsNewestResume(const Session& session, uint64_t number) const;
  // The resuming call that holds the session; null if none does.
  std::shared_ptr<Call> ResumerOf(const Session& session) const;
  // Posts `turn` once the session is not held, was removed, or another resuming call
  // waits in place of this one. False, without an effect: the holder does not resume
  // and has another request id, so it may go on.
  bool AwaitTurn(Session& session, const std::string& request_id, CallbackList& turn);
  // Posts the turn that waits for a removed session, whatever becomes of its holder.
  // ModelRunner::Forget calls it.
  void PostTurn(Session& session);

  // Meaning of a request id for a session.
  enum class IdUse {
    kUnknown,
    kHolds,       // id of the call that holds the session
    kRemembered,  // id of an earlier call
  };
  IdUse UseOf(const Session& session, const std::string& request_id) const;

  // The record of the newest call; null if that cannot be resumed. Set by the runner
  // when it admits a call and when that ends or is detached, and by session tasks.
  void SetNewestCall(Session& session, std::shared_ptr<const CallRecord> record);
  std::shared_ptr<const CallRecord> NewestCall(const Session& session) const;

  // Records that the holder scores and its tokens join the history, which had `from`
  // tokens before. From now on the session is described with that. REQUIRES: the caller
  // holds the session.
  void SetJoined(Session& session, int64_t from);
  // Where the history stood before the newest call that was taken, if that call scored
  // with this request id.
  std::optional<int64_t> ScoredFrom(const Session& session,
                                    const std::string& request_id) const;
  // Forgets it after the history was cut, and returns what was forgotten.
  std::optional<int64_t> ForgetScored(Session& session);
  // Restores what is remembered of the newest calls to what it was before a change.
  // REQUIRES: the caller holds the session.
  void TakeBack(Session& session, const SessionBefore& before);

 private:
  bool ReleaseLocked(Session& session, bool taken);
  // Moves the holder's request id to the remembered ones.
  static void RememberHolder(Session& session);

  SessionTable& table_;
  const Clock& clock_;
  const Post post_;
};

}  // namespace mnemon
