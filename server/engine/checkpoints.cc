// SPDX-License-Identifier: MIT
#include "server/engine/checkpoints.h"

#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/session_facts.h"
#include "server/requests/random.h"
#include "server/requests/request_check.h"
#include "server/sessions/session_journal.h"
#include "server/tasks/session_tasks.h"

namespace mnemon {

absl::Status Checkpoints::Make(const CheckpointSessionRequest& request,
                               OnAnswer<CheckpointFacts> on_done) {
  return parts_.Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "checkpoint_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            named_.FindWithHistory(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    auto at = std::make_shared<Session>("", session->model, parts_.context->memory);
    MNEMON_RETURN_IF_ERROR(parts_.ChargeNew(*at, Session::kCheckpointBytes));
    const Session* const fresh = at.get();
    SessionCheckpoint checkpoint{.id = request.id.empty() ? RandomId() : request.id,
                                 .request_id = request.request_id,
                                 .create_time = {},
                                 .at = std::move(at),
                                 .stored = std::make_shared<SharedAnswer>()};
    const std::shared_ptr<ModelRunner> runner = parts_.models.decoder(session->model);
    runner->Do(MakeCheckpointTask(
        session, std::move(checkpoint), request.id.empty(), parts_.context->directory,
        [this, session, fresh,
         on_done = std::move(on_done)](absl::StatusOr<SessionCheckpoint> made) {
          if (!made.ok()) return on_done(made.status());
          const bool added = made->at.get() == fresh;
          if (added) parts_.Report(SessionEvent::kCheckpoint);
          AnswerWhenStored(session, *made, added, on_done);
        }));
    return absl::OkStatus();
  });
}

void Checkpoints::AnswerWhenStored(const std::shared_ptr<Session>& session,
                                   const SessionCheckpoint& checkpoint, bool added,
                                   const OnAnswer<CheckpointFacts>& on_done) const {
  OnSynced saved;  // set for a checkpoint that was added
  const absl::Status begun = CatchOutOfMemory({}, [&] {
    const OnSynced answer = [checkpoint, on_done](const absl::Status& status) {
      if (!status.ok()) return on_done(status);
      on_done(CatchOutOfMemory({}, [&]() -> absl::StatusOr<CheckpointFacts> {
        return FactsOf(checkpoint);
      }));
    };
    const bool durable = session->journal && session->journal->durable();
    if (!added) {
      const OnSynced known = [this, session, checkpoint, durable,
                              answer](const absl::Status& status) {
        if (!status.ok() || !durable ||
            session->journal->HasCheckpoint(checkpoint.id)) {
          return answer(status);
        }
        // It was made while the session was in memory alone.
        parts_.persistence->SaveCheckpoint(session, checkpoint, answer);
      };
      checkpoint.stored ? checkpoint.stored->Await(known) : known(absl::OkStatus());
      return absl::OkStatus();
    }
    saved = [this, session, checkpoint](const absl::Status& status) {
      if (!status.ok()) Drop(session, checkpoint);
      checkpoint.stored->Give(status);
    };
    checkpoint.stored->Await(answer);
    if (durable) {
      parts_.persistence->SaveCheckpoint(session, checkpoint, saved);
    } else {
      saved(absl::OkStatus());
    }
    return absl::OkStatus();
  });
  if (begun.ok()) return;
  on_done(begun);
  if (!added || saved) return;
  Drop(session, checkpoint);
  checkpoint.stored->Give(begun);
}

void Checkpoints::Drop(const std::shared_ptr<Session>& session,
                       const SessionCheckpoint& checkpoint) const {
  static_cast<void>(CatchOutOfMemory({}, [&] {
    // First: after it left the directory another checkpoint may get its id.
    if (session->journal) session->journal->DropCheckpoint(checkpoint.id);
    if (parts_.context->directory.checkpoints().Remove(*session, *checkpoint.at)) {
      parts_.models.decoder(session->model)->Forget(checkpoint.at);
    }
    return absl::OkStatus();
  }));
}

}  // namespace mnemon
