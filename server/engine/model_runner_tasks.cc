// SPDX-License-Identifier: MIT
// Tasks on sessions between steps, and what they may do.
#include <algorithm>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "model/state/state_image.h"
#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"

namespace mnemon {

void ModelRunner::Do(std::shared_ptr<StateTask> task) {
  std::list<std::shared_ptr<StateTask>> node = {std::move(task)};
  {
    Lock lock(*this);
    if (!stopping_) {
      tasks_.splice(tasks_.end(), node);
      WakeLocked();
    }
  }
  if (!node.empty()) node.front()->Refuse(engine_errors::Draining());
}

void ModelRunner::DoTasks() {
  if (tasks_due_.empty()) return;
  Step({}, 0);
  for (; !tasks_due_.empty(); tasks_due_.pop_front()) {
    StateTask& task = *tasks_due_.front();
    try {
      task.Run(*this);
    } catch (const std::bad_alloc&) {
      task.Refuse(OutOfMemoryError());
    }
    callbacks_.Add(std::move(tasks_due_.front()));
  }
}

void ModelRunner::DropCheckpoints(const Session& session) {
  // Nobody changes the list of a session that was removed.
  for (const SessionCheckpoint& checkpoint : session.checkpoints) {
    DropState(*checkpoint.at);
  }
}

int64_t ModelRunner::PositionOf(const Session& session) const {
  const Call* const call = session.call;
  if (call == nullptr) return session.history.size();
  return std::min(session.history.size(), call->cut_size());
}

void ModelRunner::Rest(const std::shared_ptr<Session>& session) {
  if (session->forgotten || !session->state.has_state()) return;
  session->state.Rest(*arena_, session->history.size());
  UpdateBytes(*session);
  BeginResting(session);
}

void ModelRunner::DropState(Session& session) {
  StopResting(session);
  session.state.Release(*arena_);
  UpdateBytes(session);
}

void ModelRunner::EndCall(Session& session, const absl::Status& status) {
  if (session.call != nullptr) Abort(session.call->shared_from_this(), status);
}

void ModelRunner::MakeRoomFor(int64_t computed) {
  const StateSpec& spec = arena_->spec();
  if (spec.growing()) {
    const int64_t rows = computed - StateImage::FirstRow(spec, computed);
    constexpr int64_t kRows = StepBudget{}.block_positions;
    MakeRoom((rows + kRows - 1) / kRows + 1);
  }
  if (spec.fixed_elements() > 0) MakeFixedRoom(1);
}

void ModelRunner::Pin(Session& session) {
  ++pins_;
  UpdateBytes(session);
}

void ModelRunner::Unpin(Session&) { --pins_; }

void ModelRunner::Post(std::shared_ptr<Callback> callback) {
  callbacks_.Add(std::move(callback));
}

}  // namespace mnemon
