// SPDX-License-Identifier: MIT
// Tasks on sessions between steps, and what they may do.
#include <algorithm>
#include <new>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "model/state/state_image.h"
#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"
#include "server/engine/runner_arena.h"

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

void ModelRunner::LeaveSlot(const Session& session) {
  if (session.state.held()) delivering_slots_[session.state.slot()] = nullptr;
}

int64_t ModelRunner::SlotBytes() const {
  int64_t bytes = stalled_counts_.bytes;
  for (const auto& call : running_) bytes += call->session->state.bytes(*arena_);
  for (const Session* const session : delivering_slots_) {
    if (session != nullptr) bytes += session->state.bytes(*arena_);
  }
  return bytes;
}

bool ModelRunner::SlotFree() {
  if (arena_->slots_used() < arena_->slots() - kTaskSlots) return true;
  Session* longest = nullptr;
  for (Session* const session : delivering_slots_) {
    if (session == nullptr) continue;
    if (longest == nullptr ||
        session->call->stalled_since < longest->call->stalled_since) {
      longest = session;
    }
  }
  if (longest == nullptr) return false;
  LeaveSlot(*longest);
  longest->state.Rest(*arena_, longest->history.size());
  UpdateBytes(*longest);
  return true;
}

bool ModelRunner::MakeRoomFor(int64_t computed) {
  if (const int64_t fixed = arena_->spec().bytes_at(0); fixed > 0) {
    MakeFixedRoom(1, fixed);
    if (!StatesFit(fixed)) return false;
  }
  if (!arena_->spec().growing()) return true;
  constexpr int64_t kRows = StepBudget{}.block_positions;
  const int64_t first = StateImage::FirstRow(arena_->spec(), computed);
  const int64_t blocks = (computed + kRows - 1) / kRows - first / kRows;
  if (FreeBlocks(blocks) < blocks) MakeRoom(blocks);
  // Others are promised to calls that run.
  return FreeBlocks(blocks) >= blocks;
}

void ModelRunner::Rest(const std::shared_ptr<Session>& session) {
  if (session->forgotten) return;
  if (session->state.has_image() && !session->has_left) MarkLeft(session);
  if (!session->state.has_state()) return;
  session->state.Rest(*arena_, session->history.size());
  UpdateBytes(*session);
  BeginResting(session);
}

void ModelRunner::MarkLeft(const std::shared_ptr<Session>& session) {
  StopResting(*session);
  *session->resting_at = session;
  left_.splice(left_.end(), session->resting_node);
  session->has_left = true;
  CountDroppable();
}

void ModelRunner::DropState(Session& session) {
  // It may be what keeps the session.
  const std::shared_ptr<Session> kept = *session.resting_at;
  StopResting(session);
  LeaveSlot(session);
  session.state.Release(*arena_);
  session.state.DropImage();
  UpdateBytes(session);
}

void ModelRunner::MakeWay(Session& session) {
  const std::shared_ptr<Session> left = *session.resting_at;
  if (state_on_host_ || !session.resting) return DropState(session);
  // Of a call that delivers.
  LeaveSlot(session);
  session.state.Rest(*arena_, session.history.size());
  if (!session.state.has_state()) return DropState(session);
  const auto move = [&] {
    return session.state.MakeImage(*arena_, state_memory(),
                                   ChargeOf(context_->memory, &EngineMemory::images));
  };
  absl::Status moved = move();
  while (absl::IsResourceExhausted(moved) && !left_.empty()) {
    DropFirstImage();
    moved = move();
  }
  if (!moved.ok()) return DropState(session);
  UpdateBytes(session);
  MarkLeft(left);
}

void ModelRunner::DropFirstImage() {
  const std::shared_ptr<Session> first = left_.front();
  StopResting(*first);
  first->state.DropImage();
  UpdateBytes(*first);
}

bool ModelRunner::ComeBack(Session& session) {
  if (!session.state.has_image()) return true;
  const auto begin = std::chrono::steady_clock::now();
  const bool fits = MakeRoomFor(session.state.image_computed());
  // Read first: blocks that are clean by then are free below.
  const bool waits =
      AnyRuns() || room_unfinished_ || arena_->pools().blocks_recycling() > 0;
  if (fits && session.state.TakeImage(*arena_, state_memory()).ok()) {
    UpdateBytes(session);
    EngineObserver* const observer = context_->options.observer.get();
    if (observer != nullptr) {
      observer->OnRestored(SessionTier::kHost,
                           std::chrono::steady_clock::now() - begin);
    }
    return true;
  }
  if (waits) return false;
  session.state.DropImage();
  UpdateBytes(session);
  return true;
}

void ModelRunner::BringBack(const std::shared_ptr<Session>& session) {
  if (!session->state.has_image() || session->call != nullptr) return;
  if (!MakeRoomFor(session->state.image_computed())) return;
  if (!session->state.TakeImage(*arena_, state_memory()).ok()) return;
  UpdateBytes(*session);
  BeginResting(session);
}

void ModelRunner::EndCall(Session& session, const absl::Status& status) {
  if (session.call != nullptr) Abort(session.call->shared_from_this(), status);
}

absl::StatusOr<bool> ModelRunner::Hold(Session& session) {
  MNEMON_ASSIGN_OR_RETURN(const bool held, context_->directory.Hold(session, ""));
  if (held && session.call != nullptr) LeaveDelivered(*session.call);
  return held;
}

absl::Status ModelRunner::MemoryLimit(int64_t bytes) {
  return context_->MemoryLimit(bytes);
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
