// SPDX-License-Identifier: MIT
// What the engine tells of a session, and the answers that tell it.
#pragma once

#include <memory>

#include "server/engine/engine_parts.h"
#include "server/requests/request.h"
#include "server/sessions/session_directory.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// The session as it is now. Any thread.
SessionFacts FactsOf(const EngineParts& parts, const Session& session);
CheckpointFacts FactsOf(const SessionCheckpoint& checkpoint);

// Answers with the facts of the session; std::bad_alloc becomes the answer.
void AnswerNow(const EngineParts& parts, const Session& session,
               const OnAnswer<SessionFacts>& on_done);
// Answers with the facts of the session once its changes so far are synced, or with the
// error of the store. `parts` outlives the answer.
void AnswerWhenSynced(const EngineParts& parts, const std::shared_ptr<Session>& session,
                      OnAnswer<SessionFacts> on_done);

}  // namespace mnemon
