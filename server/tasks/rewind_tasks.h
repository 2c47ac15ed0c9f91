// SPDX-License-Identifier: MIT
// Sessions that go back between steps, on their model's runner: a rewind, and a change
// that is taken back because the store has refused it.
#pragma once

#include <memory>
#include <optional>

#include "server/requests/request.h"
#include "server/sessions/session_directory.h"
#include "server/tasks/state_task.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// The session forgets the newest tokens, or becomes what a checkpoint has kept. The
// answer is what it was; nullopt: another call holds it. With a `copy`, an empty
// session without a name, that is kept there, and the session stays held.
std::shared_ptr<StateTask> MakeRewindTask(
    std::shared_ptr<Session> session, std::shared_ptr<Session> copy,
    const RewindSessionRequest& request, SessionDirectory& directory,
    OnAnswer<std::optional<SessionBefore>> on_done);

// A session that is held becomes what it was before a change. The answer is true.
std::shared_ptr<StateTask> MakeTakeBackTask(std::shared_ptr<Session> session,
                                            SessionBefore before,
                                            SessionDirectory& directory,
                                            OnAnswer<bool> on_done);

}  // namespace mnemon
