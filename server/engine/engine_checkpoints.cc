// SPDX-License-Identifier: MIT
// How checkpoints of sessions are made, and get into the store.
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/engine.h"
#include "server/engine/engine_errors.h"
#include "server/engine/random.h"
#include "server/engine/request_check.h"
#include "server/engine/rewind_tasks.h"

namespace mnemon {

CheckpointFacts Engine::FactsOf(const SessionCheckpoint& checkpoint) {
  return {.id = checkpoint.id,
          .position = checkpoint.at->stored_tokens,
          .create_time = checkpoint.create_time,
          .size_bytes = checkpoint.at->state_bytes.load(std::memory_order_relaxed)};
}

absl::Status Engine::CheckpointSession(const CheckpointSessionRequest& request,
                                       OnAnswer<CheckpointFacts> on_done) {
  return Begin(WaiterKind::kCall, on_done, [&]() -> absl::Status {
    MNEMON_RETURN_IF_ERROR(CheckSessionId(request.session, "name"));
    if (!request.id.empty()) {
      MNEMON_RETURN_IF_ERROR(CheckSessionId(request.id, "checkpoint_id"));
    }
    MNEMON_RETURN_IF_ERROR(CheckRequestId(request.request_id));
    RemoveExpired();
    MNEMON_ASSIGN_OR_RETURN(std::shared_ptr<Session> session,
                            FindSession(request.session));
    if (session->journal) MNEMON_RETURN_IF_ERROR(session->journal->status());
    auto at = std::make_shared<Session>("", session->model, nullptr, context_->memory);
    MNEMON_RETURN_IF_ERROR(ChargeNew(*at, Session::kCheckpointBytes));
    const Session* const fresh = at.get();
    SessionCheckpoint checkpoint{.id = request.id.empty() ? RandomId() : request.id,
                                 .request_id = request.request_id,
                                 .create_time = {},
                                 .at = std::move(at),
                                 .stored = std::make_shared<SharedAnswer>()};
    const std::shared_ptr<ModelRunner> runner = runners_[session->model].decoder;
    runner->Do(MakeCheckpointTask(
        session, std::move(checkpoint), request.id.empty(), context_->directory,
        [this, session, fresh,
         on_done = std::move(on_done)](absl::StatusOr<SessionCheckpoint> made) {
          if (!made.ok()) return on_done(made.status());
          const bool added = made->at.get() == fresh;
          if (added) Report(SessionEvent::kCheckpoint);
          AnswerWhenStored(session, *made, added, on_done);
        }));
    return absl::OkStatus();
  });
}

void Engine::AnswerWhenStored(const std::shared_ptr<Session>& session,
                              const SessionCheckpoint& checkpoint, bool added,
                              const OnAnswer<CheckpointFacts>& on_done) {
  OnSynced saved;  // of one that was added
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
        persistence_->SaveCheckpoint(session, checkpoint, answer);
      };
      checkpoint.stored ? checkpoint.stored->Await(known) : known(absl::OkStatus());
      return absl::OkStatus();
    }
    saved = [this, session, checkpoint](const absl::Status& status) {
      if (!status.ok()) DropCheckpoint(session, checkpoint);
      checkpoint.stored->Give(status);
    };
    checkpoint.stored->Await(answer);
    if (durable) {
      persistence_->SaveCheckpoint(session, checkpoint, saved);
    } else {
      saved(absl::OkStatus());
    }
    return absl::OkStatus();
  });
  if (begun.ok()) return;
  on_done(begun);
  if (!added || saved) return;
  DropCheckpoint(session, checkpoint);
  checkpoint.stored->Give(begun);
}

void Engine::DropCheckpoint(const std::shared_ptr<Session>& session,
                            const SessionCheckpoint& checkpoint) {
  static_cast<void>(CatchOutOfMemory({}, [&] {
    // First: once the directory has it no more another one may get its id.
    if (session->journal) session->journal->DropCheckpoint(checkpoint.id);
    if (context_->directory.RemoveCheckpoint(*session, *checkpoint.at)) {
      runners_[session->model].decoder->Forget(checkpoint.at);
    }
    return absl::OkStatus();
  }));
}

}  // namespace mnemon
