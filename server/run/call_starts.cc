// SPDX-License-Identifier: MIT
#include "server/run/call_starts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"
#include "server/residency/runner_arena.h"
#include "server/sessions/session_journal.h"

namespace mnemon {

using engine_errors::NoFreeBlocks;

bool CallStarts::AdmitStarting() {
  RunnerCalls::List& starting = scope_.calls.starting;
  bool any = false;
  while (!starting.empty() && Admit(starting.front())) any = true;
  return any;
}

bool CallStarts::Admit(std::shared_ptr<Call> call) {
  const absl::StatusOr<bool> admitted =
      CatchOutOfMemory({}, [&] { return TryAdmit(*call); });
  if (!admitted.ok()) {
    if (engine_errors::IsRetryableNoFreeBlocks(admitted.status())) {
      inbox_.RefuseForMemory();
    }
    ends_.EndStarting(call, admitted.status());
    return true;
  }
  if (!*admitted) return false;
  scope_.admitted = true;
  const absl::Status taken = CatchOutOfMemory({}, [&] {
    TakeInput(*call);
    return absl::OkStatus();
  });
  if (!taken.ok()) {
    ends_.End(call, taken);
  } else if (scope_.NothingToDo(*call)) {
    ends_.End(call, absl::OkStatus(), FinishFacts{});
  }
  return true;
}

void CallStarts::EndDue() {
  RunnerCalls::List& starting = scope_.calls.starting;
  for (auto next = starting.begin(); next != starting.end();) {
    const std::shared_ptr<Call> call = *next++;
    if (call->holds() != nullptr && call->holds()->forgotten) {
      ends_.EndStarting(call, CatchOutOfMemory({}, engine_errors::SessionDeleted));
    } else if (call->stream->cancelled()) {
      ends_.EndStarting(call, engine_errors::Cancelled());
    } else if (call->deadline && scope_.calls.AnyRuns()) {
      // As in AdmissionQueue: a call that runs alone is never too late.
      const auto wait = inbox_.WaitOfLateStart(*call);
      if (!wait) continue;
      ends_.EndStarting(call, CatchOutOfMemory({}, [&] {
                          return engine_errors::DeadlineUnreachable(*wait);
                        }));
    }
  }
}

void CallStarts::TakeInput(Call& call) {
  if (!call.scoring || call.delivery.end_later) return;
  std::list<InputPiece>& input = call.scoring->input;
  TokenHistory& history = call.session->history;
  const int64_t computed =
      call.session->in_runner.state.computed(scope_.states.arena());
  while (!input.empty() && history.size() - computed <= kMostChunk) {
    history.Append(input.front().tokens);
    call.scoring->input_tokens -= static_cast<int64_t>(input.front().tokens.size());
    input.pop_front();
  }
}

bool CallStarts::MayFindRoom() const {
  return scope_.calls.AnyRuns() || scope_.states.unfinished();
}

absl::StatusOr<bool> CallStarts::TryAdmit(Call& call) {
  Session& session = *call.session;
  SlotState& state = session.in_runner.state;
  Residency& states = scope_.states;
  StateArena& arena = states.arena();
  if (session.journal) MNEMON_RETURN_IF_ERROR(session.journal->status());
  states.Use(StateOf(call.session), ResidentState::Place::kStarting);
  if (!state.held() && !states.SlotFree()) return false;
  if (call.resume.at && *call.resume.at < session.history.size()) {
    session.history.Cut(*call.resume.at);
    state.CutAtRest(arena, *call.resume.at);
  }
  if (!Restore(session)) return false;
  const std::shared_ptr<Session> source = call.scoring ? call.scoring->source : nullptr;
  if (source && source->in_runner.call == nullptr) states.BringBack(StateOf(source));
  MNEMON_ASSIGN_OR_RETURN(const bool fit, FitFixed(session));
  if (!fit) return false;
  if (!state.has_state() && source) MNEMON_RETURN_IF_ERROR(PrepareScoring(call));
  MNEMON_RETURN_IF_ERROR(state.Acquire(arena, session.history.size()));
  // It will have fixed entries of its own, where it has shared some.
  if (!states.FixedFit(0)) {
    states.MakeFixedRoom(0, 0, &session.in_runner);
    if (!states.FixedFit(0) && MayFindRoom()) return false;
  }
  const int64_t prompt = call.scoring ? call.scoring->input_tokens : call.prompt_tokens;
  MNEMON_ASSIGN_OR_RETURN(const bool reserved, ReserveBlocks(call, prompt));
  if (!reserved) return false;
  Begin(call, prompt);
  return true;
}

absl::StatusOr<bool> CallStarts::FitFixed(Session& session) {
  Residency& states = scope_.states;
  const ResidentState& state = session.in_runner;
  // Of fixed entries its own copy, and the one that it is saved as.
  constexpr int64_t kFixed = 2;
  const int64_t fixed = state.state.has_state() ? 0 : states.arena().spec().bytes_at(0);
  if (states.FreeFixed(kFixed) >= kFixed && states.FixedFit(fixed)) return true;
  states.MakeFixedRoom(kFixed, fixed, &state);
  if (!states.FixedFit(fixed)) {
    if (MayFindRoom() || inbox_.PinsEnd(scope_)) return false;
    if (fixed > 0) return NoFreeBlocks(inbox_.TimeToNextEnd());
  }
  if (states.FreeFixed(kFixed) < kFixed) {
    if (MayFindRoom() || scope_.MayGetMemory(0, kFixed)) return false;
    return NoFreeBlocks(inbox_.TimeToNextEnd());
  }
  return true;
}

absl::StatusOr<bool> CallStarts::ReserveBlocks(Call& call, int64_t prompt) {
  Session& session = *call.session;
  SessionInRunner& state = session.in_runner;
  Residency& states = scope_.states;
  StateArena& arena = states.arena();
  const int64_t held = BlocksHeld(arena, state);
  const int64_t tokens = session.history.size() + prompt - state.state.computed(arena);
  const int64_t own = BlocksFor(arena, state, tokens);
  // One of them, a copy of the last block, is not needed once no other state holds
  // that.
  const int64_t copied = own > 0 && CopiesLastBlock(arena, state) ? 1 : 0;
  const int64_t all = arena.pools().blocks();
  if (held + own - copied > all) return NoFreeBlocks(std::nullopt);
  const int64_t saved = arena.saved().BlocksToSave(state.state.slot());
  // Where both do not fit, a call that is rolled back costs its session the state.
  const bool save = !call.stateless() && !call.resume.at && held + own + saved <= all;
  int64_t needed = save ? own + saved : own;
  if (needed > states.FreeBlocks(needed)) {
    states.MakeRoom(needed, &state);
    if (held + own > all && call.scoring && call.scoring->source) {
      SessionInRunner& source = call.scoring->source->in_runner;
      if (source.state.has_state() && source.call == nullptr) states.Drop(source);
    }
    // Fewer, where its source's state was dropped: it need not copy a block first.
    needed += BlocksFor(arena, state, tokens) - own;
  }
  // Read first: blocks that are clean by then are free below.
  const bool recycling = states.unfinished() || arena.pools().blocks_recycling() > 0;
  if (needed > states.FreeBlocks(needed)) {
    if (scope_.calls.AnyRuns() || recycling || states.EvictShared() ||
        inbox_.PinsEnd(scope_) || scope_.MayGetMemory(needed, 0)) {
      return false;
    }
    return NoFreeBlocks(inbox_.TimeToNextEnd());
  }
  scope_.EndShortage();
  if (save) MNEMON_RETURN_IF_ERROR(state.state.BeginCall(arena));
  state.reserved_blocks = held + needed;
  return true;
}

void CallStarts::Begin(Call& call, int64_t prompt) {
  Session& session = *call.session;
  const int64_t before = session.history.size();
  if (session.journal) session.journal->Attach(call.stream);
  // Before its prompt: a journal that has this one without the record would let the
  // call, made again, append it twice.
  if (!call.stateless()) {
    scope_.context->directory.calls().SetNewestCall(session, call.resume.record);
  }
  if (!call.scoring) session.history.AppendStaged();
  if (!call.resume.at) {
    call.progress.base = call.progress.least = before;
    call.progress.prompt_end = before + prompt;
  }
  call.progress.admission = scope_.context->options.clock->Now();
  call.phase = Call::Phase::kRunning;
  session.in_runner.call = &call;
  session.in_runner.running.store(true, std::memory_order_relaxed);
  if (call.commits()) {
    call.scoring->source->in_runner.running.store(true, std::memory_order_relaxed);
  }
  if (call.scoring) {
    // Nothing predicts the first token of all.
    call.scoring->first = call.scoring->next = std::max<int64_t>(1, before);
    // It could have sent while it waited.
    if (RunnerScope::WaitsForCaller(call))
      call.delivery.stalled_since = call.idle_arrival;
  } else {
    call.stream->Start(
        {.first_index = before,
         .prompt_tokens = prompt,
         .seed = call.sampling.seed,
         .queue_time = call.progress.admission - call.arrival,
         .resumed_tokens = session.in_runner.state.computed(scope_.states.arena())});
  }
  scope_.states.Use(StateOf(call.session), ResidentState::Place::kRunning);
  scope_.calls.running.splice(scope_.calls.running.end(), scope_.calls.starting,
                              call.at);
  scope_.unblocked = true;
}

bool CallStarts::Restore(Session& session) {
  ResidentState& state = session.in_runner;
  if (!state.state.has_image()) return true;
  const auto begin = std::chrono::steady_clock::now();
  const auto restored = scope_.states.Restore(state, scope_.calls.AnyRuns());
  if (restored == Residency::Restored::kWaits) return false;
  if (restored == Residency::Restored::kNoRoom) {
    state.state.DropImage();
    scope_.states.UpdateBytes(state);
  } else if (EngineObserver* const observer = scope_.context->options.observer.get()) {
    observer->OnRestored(SessionTier::kHost, std::chrono::steady_clock::now() - begin);
  }
  return true;
}

absl::Status CallStarts::PrepareScoring(Call& call) {
  const Session& source = *call.scoring->source;
  if (source.forgotten) return engine_errors::SessionDeleted();
  // Where another call has used it since its history was copied, the state is computed
  // from the copy.
  if (source.in_runner.call != nullptr ||
      source.history.version() != call.scoring->source_version) {
    return absl::OkStatus();
  }
  SavedState shared;
  MNEMON_RETURN_IF_ERROR(source.in_runner.state.Share(scope_.states.arena(),
                                                      source.history.size(), shared));
  call.session->in_runner.state.Put(shared);
  return absl::OkStatus();
}

}  // namespace mnemon
