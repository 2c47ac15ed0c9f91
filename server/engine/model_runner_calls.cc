// SPDX-License-Identifier: MIT
// Begin and end of calls, on the runner's thread.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/reserve.h"
#include "base/status_macros.h"
#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"

namespace mnemon {

using engine_errors::NoFreeBlocks;

bool ModelRunner::AdmitStarting() {
  bool any = false;
  for (; !starting_.empty() && Admit(starting_.front()); starting_.pop_front()) {
    any = true;
  }
  return any;
}

bool ModelRunner::Admit(const std::shared_ptr<Call>& call) {
  const absl::StatusOr<bool> admitted = [&]() -> absl::StatusOr<bool> {
    try {
      return TryAdmit(*call);
    } catch (const std::bad_alloc&) {
      return OutOfMemoryError();
    }
  }();
  if (admitted.ok()) {
    if (*admitted) TakeInput(*call);
    if (*admitted && NothingToDo(*call)) End(call, absl::OkStatus(), FinishFacts{});
    return *admitted;
  }
  EndStarting(call, admitted.status());
  return true;
}

void ModelRunner::EndStarting(const std::shared_ptr<Call>& call, absl::Status status) {
  const std::shared_ptr<Session> session = call->session;
  endings_.push_back({.stream = call->stream, .status = std::move(status)});
  GiveBackPermit(*call);
  SetOver(*call);
  if (call->stateless()) {
    DropState(*session);
    context_->directory.ReturnStateless(index_);
  } else if (session->forgotten) {
    DropState(*session);
  } else {
    Rest(session);
    context_->directory.Release(*session, /*taken=*/false);
  }
}

bool ModelRunner::NothingToDo(const Call& call) const {
  if (!call.scoring) return call.to_compute() <= call.session->state.fed(*arena_);
  return call.scoring->closed && call.scoring->input.empty() &&
         call.scoring->next >= call.session->history.size();
}

absl::StatusOr<bool> ModelRunner::TryAdmit(Call& call) {
  Session& session = *call.session;
  if (session.resting) {
    resting_.erase(*session.resting);
    session.resting.reset();
  }
  const bool fresh = !session.state.held();
  // A call that ended holds its slot for a moment longer than its session counts.
  if (fresh && arena_->slots_used() == arena_->slots()) return false;
  MNEMON_RETURN_IF_ERROR(session.state.Acquire(*arena_));
  if (fresh && call.scoring && call.scoring->source) {
    MNEMON_RETURN_IF_ERROR(PrepareScoring(call));
  }
  const int64_t prompt = call.scoring ? call.scoring->input_tokens : call.prompt_tokens;
  const int64_t before = session.history.size();
  const int64_t held = BlocksHeld(session);
  const int64_t own = BlocksFor(session, before + prompt - session.state.fed(*arena_));
  if (held + own > arena_->blocks()) return NoFreeBlocks(std::nullopt);
  const int64_t saved = arena_->SavedBlocks(session.state.slot());
  // Where both do not fit, a call that is rolled back costs its session the state.
  const bool save = !call.stateless() && held + own + saved <= arena_->blocks();
  const int64_t needed = save ? own + saved : own;
  if (needed > FreeBlocks()) MakeRoom(needed);
  if (needed > FreeBlocks()) {
    if (!running_.empty() || arena_->blocks_recycling() > 0) return false;
    return NoFreeBlocks(TimeToNextEnd());
  }
  ReserveAtLeast(running_, running_.size() + 1);  // nothing fails once it is changed
  if (save) MNEMON_RETURN_IF_ERROR(session.state.BeginCall(*arena_));
  if (!call.scoring) session.history.AppendStaged();
  call.reserved_blocks = held + needed;
  call.base = before;
  call.prompt_end = before + prompt;
  call.admission = context_->options.clock->Now();
  call.phase = Call::Phase::kRunning;
  session.call = &call;
  session.running.store(true, std::memory_order_relaxed);
  if (call.scoring) {
    // Nothing predicts the first token of all.
    call.scoring->first = call.scoring->next = std::max<int64_t>(1, before);
  } else {
    call.stream->Start({.first_index = before,
                        .prompt_tokens = prompt,
                        .seed = call.sampling.seed,
                        .queue_time = call.admission - call.arrival,
                        .resumed_tokens = session.state.fed(*arena_)});
  }
  running_.push_back(call.shared_from_this());
  return true;
}

absl::Status ModelRunner::PrepareScoring(Call& call) {
  const Session& source = *call.scoring->source;
  if (source.forgotten) return engine_errors::SessionDeleted();
  // Between the copy of its history and now another call may have used it.
  if (source.call != nullptr ||
      source.history.version() != call.scoring->source_version) {
    return engine_errors::SessionBusy(source.id);
  }
  if (!source.state.held()) return absl::OkStatus();
  return call.session->state.ForkFrom(source.state, *arena_);
}

void ModelRunner::End(const std::shared_ptr<Call>& call, absl::Status status,
                      std::optional<FinishFacts> facts) {
  const std::shared_ptr<Call> ended = call;  // it leaves the list it may be part of
  Session& session = *ended->session;
  std::erase(running_, ended);
  GiveBackPermit(*ended);
  const bool cancelled = ended->stream->cancelled();
  if (facts) {
    const Time now = context_->options.clock->Now();
    const Time prompt_done = ended->prompt_done.value_or(now);
    facts->prompt_time = prompt_done - ended->admission;
    facts->generation_time = now - prompt_done;
    if (!ended->scoring) ended_generated_.push_back(ended->generated);
  }
  if (ended->stateless() || session.forgotten) {
    SetOver(*ended);
    DropState(session);
    if (ended->stateless()) context_->directory.ReturnStateless(index_);
  } else if (cancelled) {
    CutToDelivered(*ended);
  } else if (!status.ok() && !ended->gave()) {
    RollBack(*ended);
    Release(*ended, /*taken=*/false);
  } else {
    if (ended->scoring && !status.ok()) {
      session.history.Cut(std::min(session.history.size(), ended->scoring->next));
    }
    session.state.CutBack(*arena_, session.history.size());
    UpdateBytes(session);
    ended->phase = Call::Phase::kDelivering;
    ended->stalled_since = context_->options.clock->Now();
    ended->delivered_then = ended->stream->delivered();
    ended->release_on_end = true;
    delivering_.push_back(ended);
  }
  endings_.push_back(
      {.stream = ended->stream, .status = std::move(status), .facts = facts});
}

void ModelRunner::Abort(const std::shared_ptr<Call>& call, const absl::Status& status) {
  const bool running = call->phase == Call::Phase::kRunning;
  // Whoever takes the end releases the session; from now on that is the runner.
  if (!running && !call->release_on_end.exchange(false)) return;
  const bool aborted = call->stream->Abort(status);
  if (aborted) callbacks_.push_back(call->stream);
  // The consumer has just taken the end.
  if (!running && !aborted && !call->stream->cancelled()) {
    return Release(*call, /*taken=*/true);
  }
  if (running) {
    End(call, status);
  } else {
    CutToDelivered(*call);
  }
}

void ModelRunner::CutToDelivered(Call& call) {
  Session& session = *call.session;
  const bool delivered = call.stream->delivered() > 0;
  if (delivered) {
    session.history.Cut(std::min(session.history.size(), call.delivered_size()));
    session.state.CutBack(*arena_, session.history.size());
  } else {
    RollBack(call);
  }
  Release(call, delivered);
}

void ModelRunner::GiveBackPermit(const Call& call) {
  ++ended_permits_;
  if (!call.stateless()) ++ended_named_;
}

void ModelRunner::RollBack(Call& call) {
  Session& session = *call.session;
  session.history.Cut(call.base);
  if (session.state.can_roll_back_call()) {
    session.state.RollBackCall(*arena_);
  } else {
    DropState(session);
  }
}

void ModelRunner::Release(Call& call, bool taken) {
  const std::shared_ptr<Session> session = call.session;
  SetOver(call);
  if (session->forgotten) {
    DropState(*session);
    return;
  }
  Rest(session);
  context_->directory.Release(*session, taken);
}

void ModelRunner::SetOver(Call& call) {
  call.phase = Call::Phase::kOver;
  call.session->call = nullptr;
  const std::shared_ptr<Call> over = call.shared_from_this();
  std::erase(delivering_, over);
  DestroyLater(over);
}

void ModelRunner::DestroyLater(std::shared_ptr<void> object) {
  try {
    callbacks_.push_back(DestroyCallback(std::move(object)));
  } catch (const std::bad_alloc&) {
    // It only takes longer.
  }
}

void ModelRunner::Rest(const std::shared_ptr<Session>& session) {
  if (session->forgotten || !session->state.held()) return;
  session->state.Rest(*arena_, session->history.size());
  UpdateBytes(*session);
  if (session->resting) return;  // a call ended before the runner looked at it
  resting_.push_back(session);
  session->resting = std::prev(resting_.end());
}

void ModelRunner::DropState(Session& session) {
  if (session.resting) {
    resting_.erase(*session.resting);
    session.resting.reset();
  }
  session.state.Release(*arena_);
  UpdateBytes(session);
}

void ModelRunner::EndAll(const absl::Status& status) {
  std::vector<std::shared_ptr<Call>> waiting;
  {
    std::lock_guard lock(mutex_);
    for (Queue* queue : {&waiting_named_, &waiting_stateless_}) {
      while (!queue->empty()) {
        waiting.push_back(queue->front());
        RemoveWaitingLocked(*queue, queue->begin());
      }
    }
  }
  HandleEvents();
  chunks_.clear();
  busy_ = false;
  for (const auto& call : waiting) Refuse(call, status);
  for (; !starting_.empty(); starting_.pop_front()) {
    EndStarting(starting_.front(), status);
  }
  while (!running_.empty()) End(running_.back(), status);
  Publish();
}

}  // namespace mnemon
