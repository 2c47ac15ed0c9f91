// SPDX-License-Identifier: MIT
// The work on sessions between steps, for their model's runner: forks, checkpoints and
// rewinds, and states for those that read and write them on other threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/requests/request.h"
#include "server/sessions/session.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

class CallbackThreads;
class StateTask;

// Adds `child`, an empty session, to the directory with the history and state that the
// parent has at `position`, absent: has now. The answer is the session that was made,
// or that an earlier request with the same id has made.
std::shared_ptr<StateTask> MakeForkTask(std::shared_ptr<Session> parent,
                                        std::shared_ptr<Session> child,
                                        std::optional<int64_t> position,
                                        OnAnswer<std::shared_ptr<Session>> on_done);

// Reads at most `tokens` tokens from `first` on, absent: the newest ones, of what a
// fork would take over. Text is not read. OUT_OF_RANGE, BEYOND_HISTORY.
std::shared_ptr<StateTask> MakeReadTask(std::shared_ptr<Session> session,
                                        std::optional<int64_t> first, int64_t tokens,
                                        OnAnswer<HistoryPart> on_done);

// Ends the call on the session, if there is one, at its last delivered token.
std::shared_ptr<StateTask> MakeEndCallTask(std::shared_ptr<Session> session,
                                           absl::Status status);

// Makes the pinned state of `from`, which has no name, that of `session`, unless that
// has one, or a call, or its history is no longer of this version. False then.
std::shared_ptr<StateTask> MakeAdoptTask(std::shared_ptr<Session> session,
                                         uint64_t version,
                                         std::shared_ptr<Session> from,
                                         OnAnswer<bool> on_done);

// `at` becomes what the session is now, as a fork would, and a checkpoint of it.
std::shared_ptr<StateTask> MakeCheckpointTask(std::shared_ptr<Session> session,
                                              SessionCheckpoint checkpoint,
                                              bool drawn_id,
                                              OnAnswer<SessionCheckpoint> on_done);

// The session forgets the newest tokens, or becomes what a checkpoint has kept. The
// answer is what it was; nullopt: another call holds it. With a `copy`, an empty
// session without a name, that is kept there, and the session stays held.
std::shared_ptr<StateTask> MakeRewindTask(
    std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
    const RewindSessionRequest& request,
    OnAnswer<std::optional<SessionBefore>> on_done);

// A session that is held becomes what it was before a change. The answer is true.
std::shared_ptr<StateTask> MakeTakeBackTask(std::shared_ptr<Session> session,
                                            SessionBefore before,
                                            OnAnswer<bool> on_done);

// What a copy of a session has of one that a call runs on.
struct CopyScope {
  // All tokens, delivered or not; else what a fork takes over.
  bool undelivered = false;
  // Called between the two steps between which it is copied; may be null.
  std::function<void()> at_copy = nullptr;
};
// `copy`, an empty session without a name, becomes what `session` is; its state is
// pinned. Also where the answer is an error it is to be released.
std::shared_ptr<StateTask> MakeCopyTask(std::shared_ptr<Session> session,
                                        std::shared_ptr<Session> copy, CopyScope scope,
                                        OnAnswer<bool> on_done);

// Gives `session`, which is in no directory, a state after `computed` tokens that is to
// be written; it is pinned. The answer is false where there is no room for it: it has
// no state then, and is not pinned.
std::shared_ptr<StateTask> MakeRoomTask(std::shared_ptr<Session> session,
                                        int64_t computed, OnAnswer<bool> on_done);

// Adds `session` to the directory; `pinned`: its state was, and is not any more. The
// answer is the session that was made, or that an earlier request has made.
std::shared_ptr<StateTask> MakeInsertTask(std::shared_ptr<Session> session, bool pinned,
                                          OnAnswer<std::shared_ptr<Session>> on_done);

// Ends the call that holds the session if one with `request_id` resumes it, or if it
// goes on without a consumer; where another call than the newest is to come, cuts the
// history to the last token of that which was delivered. With a `request_id` nothing
// happens unless `resume_number` is that of the newest resume; a call before it that
// resumes the same one, and was not admitted yet, ends too. The answer is true.
std::shared_ptr<StateTask> MakeGiveWayTask(std::shared_ptr<Session> session,
                                           std::string request_id,
                                           uint64_t resume_number,
                                           OnAnswer<bool> on_done);

// Drops the states of a session at rest and of its checkpoints. The answer is true, on
// one of `threads`.
std::shared_ptr<StateTask> MakeDropTask(std::shared_ptr<Session> session,
                                        CallbackThreads& threads,
                                        OnAnswer<bool> on_done);

// Drops a state that is pinned.
std::shared_ptr<StateTask> MakeUnpinTask(std::shared_ptr<Session> session);

}  // namespace mnemon
