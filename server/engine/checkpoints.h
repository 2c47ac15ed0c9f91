// SPDX-License-Identifier: MIT
// Checkpoints of sessions: how they are made, and get into the store.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "server/engine/engine_parts.h"
#include "server/engine/named_sessions.h"
#include "server/requests/request.h"
#include "server/sessions/session_directory.h"
#include "server/waiting/one_answer.h"

namespace mnemon {

// Safe for concurrent use.
class Checkpoints {
 public:
  // Both outlive it.
  Checkpoints(const EngineParts& parts, NamedSessions& named)
      : parts_(parts), named_(named) {}

  // Engine::CheckpointSession.
  absl::Status Make(const CheckpointSessionRequest& request,
                    OnAnswer<CheckpointFacts> on_done);

 private:
  // `added`: this call made the checkpoint. Else it repeats the call that did, and the
  // checkpoint stays whatever becomes of this one.
  void AnswerWhenStored(const std::shared_ptr<Session>& session,
                        const SessionCheckpoint& checkpoint, bool added,
                        const OnAnswer<CheckpointFacts>& on_done) const;
  // The store has refused the checkpoint. Once, by the call that made it.
  void Drop(const std::shared_ptr<Session>& session,
            const SessionCheckpoint& checkpoint) const;

  const EngineParts& parts_;
  NamedSessions& named_;
};

}  // namespace mnemon
