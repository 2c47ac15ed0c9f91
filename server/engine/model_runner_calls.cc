// SPDX-License-Identifier: MIT
// Begin and end of calls, on the runner's thread.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/engine_errors.h"
#include "server/engine/model_runner.h"
#include "server/engine/session_persistence.h"

namespace mnemon {

using engine_errors::NoFreeBlocks;

bool ModelRunner::AdmitStarting() {
  bool any = false;
  while (!starting_.empty() && Admit(starting_.front())) any = true;
  return any;
}

bool ModelRunner::Admit(std::shared_ptr<Call> call) {
  const absl::StatusOr<bool> admitted =
      CatchOutOfMemory({}, [&] { return TryAdmit(*call); });
  if (!admitted.ok()) {
    if (engine_errors::IsRetryableNoFreeBlocks(admitted.status())) {
      RefuseForMemory();
    }
    EndStarting(call, admitted.status());
    return true;
  }
  if (!*admitted) return false;
  admitted_ = true;
  const absl::Status taken = CatchOutOfMemory({}, [&] {
    TakeInput(*call);
    return absl::OkStatus();
  });
  if (!taken.ok()) {
    End(call, taken);
  } else if (NothingToDo(*call)) {
    End(call, absl::OkStatus(), FinishFacts{});
  }
  return true;
}

absl::Status ModelRunner::CheckDeadline(const Call& call) const {
  // As in TooLateLocked: a call that runs alone is never too late.
  if (!call.deadline || !AnyRuns()) return absl::OkStatus();
  LoadEstimate::Duration wait;
  {
    std::lock_guard lock(mutex_);
    // One that has just got its permit was checked then.
    if (published_.starting == 0) return absl::OkStatus();
    if (!TooLateLocked(call, RunTimeLocked(call))) return absl::OkStatus();
    wait = WaitTimeLocked();
  }
  return CatchOutOfMemory({}, [&] { return engine_errors::DeadlineUnreachable(wait); });
}

void ModelRunner::EndStarting(std::shared_ptr<Call> call, absl::Status status) {
  const std::shared_ptr<Session> session = call->session;
  call->ending = {.status = std::move(status), .facts = std::nullopt};
  ++endings_;
  GiveBackPermit(*call);
  SetOver(*call);
  if (call->stateless()) {
    DropState(*session);
    EndCopy(*call);
  } else if (session->forgotten) {
    DropState(*session);
  } else {
    call->unused = session->history.TakeUnused();
    RememberStream(*call);
    Rest(session);
    context_->directory.Release(*session, /*taken=*/false);
  }
}

bool ModelRunner::NothingToDo(const Call& call) const {
  if (!call.scoring) return call.to_compute() <= call.session->state.computed(*arena_);
  return call.scoring->all_taken() &&
         call.scoring->next >= call.session->history.size() &&
         (!call.commits() || call.all_delivered());
}

bool ModelRunner::WaitsForCaller(const Call& call) const {
  if (call.stream->space() == 0) return true;
  // A state that is lost is computed again with the next part.
  if (!call.scoring || !call.scoring->input.empty() ||
      call.scoring->next < call.session->history.size()) {
    return false;
  }
  return !call.scoring->closed() || (call.commits() && !call.all_delivered());
}

absl::StatusOr<bool> ModelRunner::TryAdmit(Call& call) {
  Session& session = *call.session;
  if (session.journal) MNEMON_RETURN_IF_ERROR(session.journal->status());
  StopResting(session);
  if (!session.state.held() && !SlotFree()) return false;
  if (call.resumed_at && *call.resumed_at < session.history.size()) {
    session.history.Cut(*call.resumed_at);
    session.state.CutAtRest(*arena_, *call.resumed_at);
  }
  if (!ComeBack(session)) return false;
  if (call.scoring && call.scoring->source) BringBack(call.scoring->source);
  // Of fixed entries its own copy, and the one that it is saved as.
  constexpr int64_t kFixed = 2;
  const int64_t fixed = session.state.has_state() ? 0 : arena_->spec().bytes_at(0);
  if (FreeFixed(kFixed) < kFixed || !StatesFit(fixed)) {
    MakeFixedRoom(kFixed, fixed, &session);
    if (!StatesFit(fixed)) {
      if (AnyRuns() || room_unfinished_ || PinsEnd()) return false;
      if (fixed > 0) return NoFreeBlocks(TimeToNextEnd());
    }
    if (FreeFixed(kFixed) < kFixed) {
      if (AnyRuns() || room_unfinished_ || AskForMemory(0, kFixed)) {
        return false;
      }
      return NoFreeBlocks(TimeToNextEnd());
    }
  }
  if (!session.state.has_state() && call.scoring && call.scoring->source) {
    MNEMON_RETURN_IF_ERROR(PrepareScoring(call));
  }
  MNEMON_RETURN_IF_ERROR(session.state.Acquire(*arena_, session.history.size()));
  // It will have fixed entries of its own, where it has shared some.
  if (!StatesFit(0)) {
    MakeFixedRoom(0, 0, &session);
    if (!StatesFit(0) && (AnyRuns() || room_unfinished_)) return false;
  }
  const int64_t prompt = call.scoring ? call.scoring->input_tokens : call.prompt_tokens;
  const int64_t before = session.history.size();
  const int64_t held = BlocksHeld(session);
  const int64_t tokens = before + prompt - session.state.computed(*arena_);
  const int64_t own = BlocksFor(session, tokens);
  // One of them, a copy of the last block, is not needed once no other state holds
  // that.
  const int64_t copied = own > 0 && CopiesLastBlock(session) ? 1 : 0;
  if (held + own - copied > arena_->pools().blocks()) return NoFreeBlocks(std::nullopt);
  const int64_t saved = arena_->saved().BlocksToSave(session.state.slot());
  // Where both do not fit, a call that is rolled back costs its session the state.
  const bool save = !call.stateless() && !call.resumed_at &&
                    held + own + saved <= arena_->pools().blocks();
  int64_t needed = save ? own + saved : own;
  if (needed > FreeBlocks(needed)) {
    MakeRoom(needed, &session);
    if (held + own > arena_->pools().blocks()) DropSource(call);
    // Fewer, where its source's state was dropped: it need not copy a block first.
    needed += BlocksFor(session, tokens) - own;
  }
  // Read first: blocks that are clean by then are free below.
  const bool recycling = room_unfinished_ || arena_->pools().blocks_recycling() > 0;
  if (needed > FreeBlocks(needed)) {
    if (AnyRuns() || recycling || DropShared() || PinsEnd() ||
        AskForMemory(needed, 0)) {
      return false;
    }
    return NoFreeBlocks(TimeToNextEnd());
  }
  HasMemory();
  if (save) MNEMON_RETURN_IF_ERROR(session.state.BeginCall(*arena_));
  if (session.journal) session.journal->Attach(call.stream);
  // Before its prompt: a journal that has this one without the record would let the
  // call, made again, append it twice.
  if (!call.stateless()) context_->directory.SetNewestCall(session, call.record);
  if (!call.scoring) session.history.AppendStaged();
  call.reserved_blocks = held + needed;
  if (!call.resumed_at) {
    call.base = call.least = before;
    call.prompt_end = before + prompt;
  }
  call.admission = context_->options.clock->Now();
  call.phase = Call::Phase::kRunning;
  session.call = &call;
  session.running.store(true, std::memory_order_relaxed);
  if (call.commits()) {
    call.scoring->source->running.store(true, std::memory_order_relaxed);
  }
  if (call.scoring) {
    // Nothing predicts the first token of all.
    call.scoring->first = call.scoring->next = std::max<int64_t>(1, before);
    // It could have sent while it waited.
    if (WaitsForCaller(call)) call.stalled_since = call.idle_arrival;
  } else {
    call.stream->Start({.first_index = before,
                        .prompt_tokens = prompt,
                        .seed = call.sampling.seed,
                        .queue_time = call.admission - call.arrival,
                        .resumed_tokens = session.state.computed(*arena_)});
  }
  running_.splice(running_.end(), starting_, call.at);
  unblocked_ = true;
  return true;
}

absl::Status ModelRunner::PrepareScoring(Call& call) {
  const Session& source = *call.scoring->source;
  if (source.forgotten) return engine_errors::SessionDeleted();
  // Where another call has used it since its history was copied, the state is computed
  // from the copy.
  if (source.call != nullptr ||
      source.history.version() != call.scoring->source_version) {
    return absl::OkStatus();
  }
  SavedState shared;
  MNEMON_RETURN_IF_ERROR(source.state.Share(*arena_, source.history.size(), shared));
  call.session->state.Put(shared);
  return absl::OkStatus();
}

void ModelRunner::End(const std::shared_ptr<Call>& call, absl::Status status,
                      std::optional<FinishFacts> facts) {
  if (call->under_way.steps > 0) {
    if (call->end_later) return;
    call->end_later.emplace(Call::Ending{std::move(status), std::move(facts)});
    ++waiting_ends_;
    return;
  }
  const std::shared_ptr<Call> ended = call;  // it leaves the list it may be part of
  Session& session = *ended->session;
  const Session* const holds = ended->holds();
  if (status.ok() && (session.forgotten || (holds && holds->forgotten))) {
    // Removed in this round, before its caller closed the input, for example.
    status = CatchOutOfMemory({}, engine_errors::SessionDeleted);
    facts.reset();
  }
  stepper_.EndDraws(*ended);
  GiveBackPermit(*ended);
  const bool cancelled = ended->cancelled();
  const bool taken = cancelled ? KeepsPrompt(*ended) : ended->gave();
  status = ToldOfPrompt(*ended, std::move(status), taken);
  if (facts && !(ended->record && ended->record->end)) {
    const Time now = context_->options.clock->Now();
    const Time prompt_done = ended->prompt_done.value_or(now);
    facts->prompt_time = prompt_done - ended->admission;
    facts->generation_time = now - prompt_done;
    if (!ended->scoring && ended_generated_.size() < ended_generated_.capacity()) {
      ended_generated_.push_back(ended->generated);
    }
  }
  ended->ending.emplace(Call::Ending{status, std::move(facts)});
  ++endings_;
  if (ended->stateless() || session.forgotten) {
    SetOver(*ended);
    const bool join = ended->commits() && status.ok() && !cancelled;
    if (join) Join(*ended);
    if (ended->keeps_state && status.ok()) {
      session.state.Rest(*arena_, session.history.size());
      Pin(session);
    } else {
      DropState(session);
    }
    if (ended->stateless()) EndCopy(*ended);
  } else if (cancelled) {
    CutToDelivered(*ended);
  } else if (!taken && !status.ok()) {
    RollBack(*ended);
    if (CanGoOn(status)) {
      RememberDetached(*ended);
    } else if (ended->record) {
      context_->directory.SetNewestCall(session, nullptr);
    }
    Release(*ended, /*taken=*/false);
  } else {
    session.state.CutBack(*arena_, session.history.size());
    UpdateBytes(session);
    if (!CanGoOn(status)) RememberEnd(*ended);
    if (ended->runs_on()) return Release(*ended, /*taken=*/true);
    ending_.splice(ending_.end(), running_, ended->at);
    ended->phase = Call::Phase::kDelivering;
    BeginResting(ended->session);
    ended->stalled_since = IdleNow();
    ended->delivered_then = ended->stream->delivered();
    ended->release_on_end = true;
    if (session.state.held()) delivering_slots_[session.state.slot()] = &session;
  }
}

void ModelRunner::ReleaseEnd(Call& call) {
  if (call.before) {
    const std::shared_ptr<Session>& source = call.scoring->source;
    try {
      return context_->persistence->Settle(
          source, WaiterKind::kRelease, *std::exchange(call.before, std::nullopt),
          [stream = call.stream](const absl::Status& status) {
            ReleaseEndOf(*stream, status);
          });
    } catch (const std::bad_alloc&) {
      // What is written is synced with the next turn.
      context_->directory.Release(*source, /*taken=*/true);
    }
  }
  constexpr auto kAll = std::numeric_limits<int64_t>::max();
  if (call.stream->Release(kAll, /*finish=*/true, round_) !=
      TokenStream::Notice::kNone) {
    callbacks_.Add(call.stream);
  }
}

void ModelRunner::EndWaiting() {
  for (auto next = running_.begin(); waiting_ends_ > 0 && next != running_.end();) {
    const std::shared_ptr<Call> call = *next++;
    if (!call->end_later || call->under_way.steps > 0) continue;
    --waiting_ends_;
    Call::Ending end = *std::exchange(call->end_later, std::nullopt);
    End(call, std::move(end.status), std::move(end.facts));
  }
}

void ModelRunner::Abort(const std::shared_ptr<Call>& call, const absl::Status& status) {
  // Its consumer has taken the end, and releases the session, or has cancelled it.
  if (!call->stream->StopDelivery()) return;
  if (call->phase != Call::Phase::kRunning) return EndDelivering(*call, status);
  if (call->runs_on()) return LeaveConsumer(*call, status);
  End(call, status);
}

void ModelRunner::EndDelivering(Call& call, const absl::Status& status) {
  call.release_on_end = false;
  const bool taken = KeepsPrompt(call);
  CutToDelivered(call);
  call.ending = {.status = ToldOfPrompt(call, status, taken), .facts = std::nullopt};
  ++endings_;
}

void ModelRunner::LeaveConsumer(Call& call, const absl::Status& status) {
  const absl::Status told = ToldOfPrompt(call, status, /*taken=*/true);
  if (call.stream->Finish(told, std::nullopt)) callbacks_.Add(call.stream);
  ReleaseEnd(call);
  Remember(call, [&](CallRecord& record) { record.delivered = call.cut_size(); });
}

bool ModelRunner::KeepsPrompt(const Call& call) {
  return !call.rolls_back() || call.cut_keeps_all();
}

absl::Status ModelRunner::ToldOfPrompt(const Call& call, absl::Status status,
                                       bool taken) {
  if (status.ok() || absl::IsCancelled(status) || call.stateless() || call.scoring) {
    return status;
  }
  return CatchOutOfMemory({}, [&] {
    return engine_errors::WithPromptTaken(status, taken,
                                          call.record && CanGoOn(status));
  });
}

bool ModelRunner::CanGoOn(const absl::Status& status) {
  return absl::IsUnavailable(status) || engine_errors::IsNoFreeBlocks(status);
}

template <class Change>
void ModelRunner::Remember(const Call& call, const Change& change) try {
  if (!call.record) return;
  SessionDirectory& directory = context_->directory;
  const auto newest = directory.NewestCall(*call.session);
  auto record = std::make_shared<ChargedRecord>(
      *newest, ChargeOf(context_->memory, &EngineMemory::histories));
  record->charge.Set(PromptBytes(*record));
  change(*record);
  directory.SetNewestCall(*call.session, std::move(record));
} catch (const std::bad_alloc&) {
  // What is remembered is still true, and a resume finds out the rest.
}

void ModelRunner::RememberEnd(const Call& call) {
  Remember(call, [&](CallRecord& record) {
    record.end = {.status = call.ending->status,
                  .facts = call.ending->facts,
                  .size = call.session->history.size()};
  });
}

void ModelRunner::RememberDetached(const Call& call) {
  if (!call.record) return;
  const int64_t size = call.session->history.size();
  if (size >= call.prompt_end) {
    return Remember(call, [&](CallRecord& record) {
      record.delivered = std::min(size, call.cut_size());
    });
  }
  // Now it stays when no call runs.
  ByteCharge charge = ChargeOf(context_->memory, &EngineMemory::histories);
  charge.Set(PromptBytes(*call.undone));
  call.undone->charge = std::move(charge);
  // Set first: it is there, whatever memory is left.
  const auto newest = context_->directory.NewestCall(*call.session);
  context_->directory.SetNewestCall(*call.session, call.undone);
  if (!newest->end) return;
  Remember(call, [&](CallRecord& record) { record.end = newest->end; });
}

void ModelRunner::RememberStream(const Call& call) {
  if (!call.resumed_at) return;
  const int64_t size = call.session->history.size();
  Remember(call, [&](CallRecord& record) {
    // Unless it was cancelled, all that is there is still delivered.
    const int64_t now = call.stream->cancelled() ? call.cut_size() : *call.resumed_at;
    record.delivered = std::min(size, std::max(record.delivered.value_or(size), now));
  });
}

void ModelRunner::GiveWay(Session& session, const std::string& request_id) {
  if (session.call == nullptr) return;
  const std::shared_ptr<Call> call = session.call->shared_from_this();
  const bool resumed = call->record && call->request_id == request_id;
  if (!resumed && !call->runs_on()) return;
  if (call->phase == Call::Phase::kDelivering &&
      !call->release_on_end.exchange(false)) {
    return;  // its consumer has taken the end, and releases the session
  }
  call->taken_over = resumed;
  call->goes_on = call->goes_on && resumed;
  // One that ends is no longer delivered, nor one that was cancelled.
  static_cast<void>(call->stream->StopDelivery());
  const absl::Status status = CatchOutOfMemory({}, engine_errors::StreamResumed);
  if (call->phase == Call::Phase::kRunning) return End(call, status);
  EndDelivering(*call, status);
}

void ModelRunner::Supersede(const std::shared_ptr<Call>& call) {
  // One that is not queued yet is refused as cancelled, one that has a permit ends in
  // this round; the first end of the stream counts.
  if (call->settled.exchange(true) || !call->stream->StopDelivery()) return;
  const absl::Status status = CatchOutOfMemory({}, engine_errors::StreamResumed);
  if (call->stream->Finish(status, std::nullopt)) callbacks_.Add(call->stream);
  Calls waiting;
  {
    Lock lock(*this);
    if (call->waiting) RemoveWaitingLocked(*call, waiting);
  }
  Refuse(waiting, status);
}

void ModelRunner::CutToDelivered(Call& call) {
  Session& session = *call.session;
  const bool taken = KeepsPrompt(call);
  if (!taken) {
    RollBack(call);
  } else if (!call.cut_keeps_all()) {
    session.history.Cut(std::min(session.history.size(), call.cut_size()));
  }
  if (taken) session.state.CutBack(*arena_, session.history.size());
  if (call.ended_by_consumer() && call.record) {
    context_->directory.SetNewestCall(session, nullptr);
  } else if (!session.forgotten) {
    RememberDetached(call);
  }
  Release(call, taken);
}

void ModelRunner::Join(Call& call) {
  SessionDirectory& directory = context_->directory;
  Session& copy = *call.session;
  const std::shared_ptr<Session>& source = call.scoring->source;
  copy.state.Rest(*arena_, copy.history.size());
  if (source->journal) {
    call.before = {.tokens = call.base,
                   .version = source->history.version(),
                   .newest_call = directory.NewestCall(*source)};
  }
  // First: a record without the history lets the call be made again, a history without
  // the record would let it be joined twice.
  directory.SetJoined(*source, call.base);
  // Which no call goes on with any more.
  directory.SetNewestCall(*source, nullptr);
  source->history.Become(copy.history);
  DropState(*source);
  source->state.Put(copy.state.whole());
  Rest(source);
}

void ModelRunner::EndCopy(const Call& call) {
  if (!call.commits() || call.before) return;
  context_->directory.Release(*call.scoring->source, /*taken=*/false);
}

void ModelRunner::GiveBackPermit(const Call& call) {
  ++ended_permits_;
  if (!call.nameless()) ++ended_named_;
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
  call.unused = session->history.TakeUnused();
  Rest(session);
  context_->directory.Release(*session, taken);
  if (taken) Store(session, SnapshotTime::kAtRest);
}

bool ModelRunner::FollowsClosely(Session& session) const {
  const auto now = std::chrono::steady_clock::now();
  const auto since = now - std::exchange(session.turn_end, now);
  // What a full memory has may make way for others before the session has rested.
  const ByteBudget& budget = context_->memory->budget;
  return since < context_->options.snapshot_rest &&
         counts_.state_bytes <= capacity_bytes_ / 2 &&
         budget.used() <= budget.limit() / 2;
}

void ModelRunner::Store(const std::shared_ptr<Session>& session, SnapshotTime time) {
  if (session->journal == nullptr || session->forgotten) return;
  session->journal->TouchRecord();
  if (session->journal->durable()) {
    if (time == SnapshotTime::kAtRest && FollowsClosely(*session)) {
      context_->persistence->RequestAtRest(session);
    } else {
      context_->persistence->RequestSnapshot(session);
    }
  }
  context_->persistence->KeepMemoryFree();
}

ModelRunner::Calls& ModelRunner::ListOf(const Call& call) {
  switch (call.phase) {
    case Call::Phase::kWaiting:
      return starting_;
    case Call::Phase::kRunning:
      return running_;
    case Call::Phase::kDelivering:
      if (call.ending) return ending_;
      return call.unread ? unread_ : delivering_;
    case Call::Phase::kOver:
      break;
  }
  return over_;
}

void ModelRunner::SetOver(Call& call) {
  over_.splice(over_.end(), ListOf(call), call.at);
  LeaveSlot(*call.session);
  call.phase = Call::Phase::kOver;
  call.session->call = nullptr;
}

void ModelRunner::BeginResting(const std::shared_ptr<Session>& session) {
  // It may rest since its call has computed all, or because no call was admitted.
  if (session->resting || !session->state.has_state()) return;
  StopResting(*session);
  session->resting = true;
  resting_named_ += session->id.empty() ? 0 : 1;
  worthless_ = 0;
  *session->resting_at = session;
  resting_.splice(resting_.end(), session->resting_node);
  CountDroppable();
}

void ModelRunner::StopResting(Session& session) {
  if (!session.resting && !session.has_left) return;
  if (session.resting) {
    resting_named_ -= session.id.empty() ? 0 : 1;
    worthless_ = 0;
  }
  session.resting_node.splice(session.resting_node.end(),
                              session.resting ? resting_ : left_, session.resting_at);
  session.resting = session.has_left = false;
  CountDroppable();
  session.resting_at->reset();
}

void ModelRunner::CountDroppable() {
  droppable_ = static_cast<int64_t>((state_on_host_ ? resting_ : left_).size());
}

void ModelRunner::EndAll(const absl::Status& status) {
  Calls waiting;
  {
    std::lock_guard lock(mutex_);
    while (!queue_.empty()) RemoveWaitingLocked(*queue_.front(), waiting);
  }
  // What they give is dropped.
  while (stepper_.under_way() > 0) stepper_.Complete(*arena_);
  LookAtStalled();
  if (stepper_.lost()) LoseDevice();
  EndWaiting();
  Receive();
  chunks_.clear();
  busy_ = false;
  Refuse(waiting, status);
  while (!starting_.empty()) EndStarting(starting_.front(), status);
  while (!running_.empty()) End(running_.back(), status);
  Publish();
}

}  // namespace mnemon
