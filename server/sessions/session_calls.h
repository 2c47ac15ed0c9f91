// SPDX-License-Identifier: MIT
// The calls on each session: its holder, the one that waits to resume, and what is
// remembered of earlier ones.
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

// Safe for concurrent use. O(1), or O(SessionEntry::kRequestIds).
class SessionCalls {
 public:
  // As CallbackThreads::Post. Called without a lock.
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
  // Gives the session to a call; false: another one holds it. Errors, which come first:
  //   NOT_FOUND: the session was removed.
  //   ALREADY_EXISTS, REQUEST_REPEATED: the session remembers this request id, and the
  //     call does not resume.
  //   FAILED_PRECONDITION, SESSION_PAUSED.
  //   ABORTED, STREAM_RESUMED: the call resumes, and a later one has begun to.
  absl::StatusOr<bool> Hold(Session& session, const std::string& request_id,
                            const Resume* resume = nullptr);
  // Ends a hold; a ttl of the session begins. The holder's request id is remembered if
  // `taken`, or after SetJoined; it replaces the oldest one if there is no memory for
  // one more. False: the session was removed meanwhile. REQUIRES: the caller holds it.
  bool Release(Session& session, bool taken);

  // Returns the number of a new attempt to resume the newest call; earlier ones are
  // over.
  uint64_t BeginResume(Session& session);
  bool IsNewestResume(const Session& session, uint64_t number) const;
  // The resuming call that holds the session; null if none does.
  std::shared_ptr<Call> ResumerOf(const Session& session) const;
  // Posts `turn` once the session is not held, was removed, or another resuming call
  // waits in its place. False, without an effect: the holder is another call, which
  // does not resume and may go on.
  bool AwaitTurn(Session& session, const std::string& request_id, CallbackList& turn);
  // Posts the turn that waits for a removed session, for ModelRunner::Forget.
  void PostTurn(Session& session);

  // What has the request id: the holder, or an earlier call.
  enum class IdUse { kUnknown, kHolds, kRemembered };
  IdUse UseOf(const Session& session, const std::string& request_id) const;

  // The newest call; null if it cannot be resumed. Set by the runner and session tasks.
  void SetNewestCall(Session& session, std::shared_ptr<const CallRecord> record);
  std::shared_ptr<const CallRecord> NewestCall(const Session& session) const;

  // The tokens that the holder scores join the history, which had `from` tokens before;
  // the session is described with that. REQUIRES: the caller holds the session.
  void SetJoined(Session& session, int64_t from);
  // Tokens in the history before the newest call, if that scored with this request id.
  std::optional<int64_t> ScoredFrom(const Session& session,
                                    const std::string& request_id) const;
  // Forgets it after the history was cut, and returns what was forgotten.
  std::optional<int64_t> ForgetScored(Session& session);
  // Restores what was before a change. REQUIRES: the caller holds the session.
  void TakeBack(Session& session, const SessionBefore& before);

 private:
  static void RememberHolder(Session& session);

  SessionTable& table_;
  const Clock& clock_;
  const Post post_;
};

}  // namespace mnemon
