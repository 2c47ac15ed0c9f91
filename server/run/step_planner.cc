// SPDX-License-Identifier: MIT
#include "server/run/step_planner.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "server/requests/engine_errors.h"
#include "server/residency/runner_arena.h"
#include "server/run/scheduler.h"

namespace mnemon {

int64_t StepPlanner::LeastServed() const {
  int64_t least = -1;
  for (const auto& call : scope_.calls.running) {
    const int64_t served = call->steps.prefill_served;
    if (served < 0 || call->progress.prompt_done) continue;
    if (least < 0 || served < least) least = served;
  }
  return least;
}

void StepPlanner::Plan() {
  RunnerCalls& calls = scope_.calls;
  Residency& states = scope_.states;
  const Call::Time now = scope_.IdleNow();
  const int64_t least_served = LeastServed();
  chunks_.clear();
  starved_.clear();
  states.planned() = {};
  recycling_ = states.arena().pools().blocks_recycling() > 0;
  for (auto next = calls.running.begin(); next != calls.running.end();) {
    const auto at = next++;
    if (!PlanCall(**at, now, least_served)) SetAside(at);
  }
  const int64_t unreserved = states.FreeBlocks(WantedBlocks());
  ScheduleStep(chunks_, {.tokens = scope_.context->options.step_tokens,
                         .free_blocks = unreserved + states.PromisedBlocks(),
                         .unreserved_blocks = unreserved});
  PlanFixed();
  for (const ScheduledChunk& chunk : chunks_) {
    if (!chunk.starved) {
      scope_.unblocked = scope_.unblocked || (chunk.was_starved && chunk.count > 0);
      continue;
    }
    chunk.call->steps.starved = true;
    starved_.push_back(chunk.call);
  }
  std::erase_if(chunks_, [](const ScheduledChunk& chunk) { return chunk.count == 0; });
  CountBlocks();
}

bool StepPlanner::PlanCall(Call& call, Call::Time now, int64_t least_served) {
  Residency& states = scope_.states;
  StateArena& arena = states.arena();
  const bool starved = std::exchange(call.steps.starved, false);
  if (call.delivery.end_later) return true;
  const CallSteps::UnderWay& under_way = call.steps.under_way;
  SlotState& state = call.session->in_runner.state;
  if (state.can_roll_back_call() && (call.stream->delivered() > 0 || call.runs_on())) {
    state.KeepPrompt(arena);
  }
  const int64_t kept = call.kept();
  state.ReleaseUnreachable(arena, kept, state.computed(arena) - under_way.tokens);
  const int64_t space = call.stream->space() - under_way.results;
  const int64_t to_compute = call.to_compute() + DrawnAhead(call);
  const bool behind = state.computed(arena) < to_compute;
  int64_t available = behind ? state.ChunkLimit(arena, to_compute, kept) : 0;
  if (call.scoring) available = std::min(available, space);
  // The last token of the prompt comes alone: so it can tell of its step.
  if (call.params->introspection.any() && available > 1 &&
      state.computed(arena) + available == to_compute) {
    --available;
  }
  if (!RunnerScope::WaitsForCaller(call)) {
    call.delivery.stalled_since.reset();
  } else if (!call.delivery.stalled_since) {
    call.delivery.stalled_since = now;
    call.steps.prefill_served = -1;
  }
  if (call.delivery.stalled_since && under_way.steps == 0) return false;
  if (available <= 0 || space <= 0 || call.delivery.stalled_since) return true;
  if (call.steps.preempted_at && !GoesOn(call)) {
    call.steps.starved = true;
    starved_.push_back(&call);
    return true;
  }
  // A call that joins starts level with the one served least, not ahead of all.
  if (call.steps.prefill_served < 0)
    call.steps.prefill_served = std::max<int64_t>(0, least_served);
  ScheduledChunk chunk{.call = &call,
                       .position = state.computed(arena),
                       .available = available,
                       .prefill_served = call.steps.prefill_served,
                       .kept = kept,
                       .was_starved = starved};
  if (arena.spec().growing()) {
    const int64_t within = chunk.position % kBlockPositions;
    // A block that others hold too is replaced by a copy first.
    chunk.free_positions =
        arena.BlocksNeeded(state.slot(), 1) > 0 ? -within : kBlockPositions - within;
    chunk.reserved_blocks = BlocksPromised(arena, call.session->in_runner);
  }
  chunks_.push_back(std::move(chunk));
  return true;
}

void StepPlanner::PlanFixed() {
  Residency& states = scope_.states;
  if (states.arena().spec().fixed_elements() == 0) return;
  // At most one for each: a step copies what a shadow or another slot shares.
  const auto wanted = static_cast<int64_t>(chunks_.size());
  if (states.FreeFixed(wanted) < wanted) states.MakeFixedRoom(wanted);
  const int64_t free = states.FreeFixed(wanted);
  for (ScheduledChunk& chunk : chunks_) {
    if (chunk.count == 0) continue;
    if (states.planned().fixed < free) {
      ++states.planned().fixed;
    } else {
      chunk.count = 0;
      chunk.starved = true;
    }
  }
}

void StepPlanner::CountBlocks() {
  Residency& states = scope_.states;
  int64_t step_blocks = 0;
  for (const ScheduledChunk& chunk : chunks_) {
    const int64_t needed = states.arena().BlocksNeeded(
        chunk.call->session->in_runner.state.slot(), chunk.count);
    step_blocks += needed;
    states.planned().blocks += std::max<int64_t>(0, needed - chunk.reserved_blocks);
  }
  if (!chunks_.empty()) scope_.EndShortage();
  // States at rest are dropped before a call has to pause for long.
  if (!starved_.empty() && !chunks_.empty()) {
    states.MakeRoom(static_cast<int64_t>(starved_.size()));
  }
  states.arena().pools().SetAside(step_blocks, states.planned().fixed);
}

int64_t StepPlanner::WantedBlocks() const {
  int64_t wanted = 0;
  for (const ScheduledChunk& chunk : chunks_) {
    const int64_t count = std::min(chunk.available, kMostChunk);
    const int64_t needed = scope_.states.arena().BlocksNeeded(
        chunk.call->session->in_runner.state.slot(), count);
    wanted += std::max<int64_t>(0, needed - chunk.reserved_blocks);
  }
  return wanted;
}

int64_t StepPlanner::DrawnAhead(const Call& call) const {
  const int64_t drawn = call.steps.under_way.results;
  if (drawn == 0 || call.scoring || !scope_.model.decoder->draws()) return 0;
  // The last of them ends the call, as StepLoop will find.
  const int64_t last = call.session->history.size() + drawn - 1;
  const bool ends = call.progress.generated + drawn >= call.params->max_tokens ||
                    last >= scope_.context_limit;
  return ends ? 0 : drawn;
}

void StepPlanner::SetAside(RunnerCalls::List::iterator call) {
  RunnerCalls& calls = scope_.calls;
  const Call& stalled = **call;
  calls.stalled_counts.named += stalled.nameless() ? 0 : 1;
  SetEarlier(calls.stalled_counts.due, scope_.DueOf(stalled));
  SetEarlier(calls.stalled_counts.deadline, stalled.deadline);
  scope_.states.SetAside(stalled.session->in_runner);
  calls.stalled.splice(calls.stalled.end(), calls.running, call);
}

bool StepPlanner::ResolveStarvation() {
  Residency& states = scope_.states;
  if (starved_.empty() && scope_.calls.starting.empty()) return false;
  // What a step under way leads to may be enough.
  if (scope_.stepper.under_way() > 0) return false;
  // Recycled blocks wake the runner once they are clean.
  if (recycling_ || states.arena().pools().blocks_recycling() > 0) return false;
  // For calls that start, CallStarts has made room.
  if (!starved_.empty() && states.MakeRoom(1)) return true;
  if (!starved_.empty() && states.MakeFixedRoom(1)) return true;
  if (states.unfinished()) return false;
  if (DropStalled()) return true;
  if (starved_.empty()) return false;
  // Of those that hold something, if any, the one that was admitted last.
  const auto order = [](const Call* call) {
    return std::pair(!call->steps.preempted_at, call->progress.admission);
  };
  const std::shared_ptr<Call> victim =
      (*std::ranges::max_element(starved_, {}, order))->shared_from_this();
  Session& session = *victim->session;
  const int64_t blocks =
      victim->steps.preempted_at
          ? BlocksFor(states.arena(), session.in_runner, session.history.size())
          : 1;
  if (scope_.MayGetMemory(blocks, 1)) return false;
  const bool alone = std::none_of(starved_.begin(), starved_.end(), [&](const Call* c) {
    return c != victim.get() && !c->steps.preempted_at;
  });
  if (alone && states.EvictShared()) return true;
  if (alone && inbox_.PinsEnd(scope_)) return false;
  starved_.clear();
  if (!alone) {
    DropState(*victim);
    victim->steps.preempted_at = scope_.round;
    ++scope_.counts.preemptions;
    return true;
  }
  const bool gave = victim->gave();
  // Only a call that leaves nothing behind is worth a plain repetition.
  ends_.End(victim, engine_errors::NoFreeBlocks(
                        gave ? std::nullopt : std::optional(inbox_.TimeToNextEnd())));
  // Its blocks are what the others wait for; the next call computes the state again.
  if (!session.forgotten) states.Drop(session.in_runner);
  return true;
}

void StepPlanner::DropState(Call& call) {
  SessionInRunner& state = call.session->in_runner;
  state.state.Reset(scope_.states.arena());
  state.reserved_blocks = 0;
  scope_.states.UpdateBytes(state);
}

bool StepPlanner::GoesOn(Call& call) {
  Residency& states = scope_.states;
  SessionInRunner& state = call.session->in_runner;
  const int64_t needed = BlocksFor(states.arena(), state, call.session->history.size());
  const auto& running = scope_.calls.running;
  const int64_t others =
      std::count_if(running.begin(), running.end(), [&](const auto& other) {
        return other.get() != &call && !other->steps.preempted_at &&
               !other->delivery.stalled_since;
      });
  // Else it is preempted again soon, and has computed its history for nothing.
  const int64_t room = others == 0 ? 0 : others + needed / 4;
  // What it gave up is for those that waited.
  if (room > 0 && *call.steps.preempted_at == scope_.round) return false;
  const int64_t blocks = needed + room;
  // Of fixed entries its own, and a shadow.
  const int64_t fixed = states.arena().spec().fixed_elements() > 0 ? 2 : 0;
  if (blocks > states.FreeBlocks(blocks)) states.MakeRoom(blocks);
  if (states.FreeFixed(fixed) < fixed) states.MakeFixedRoom(fixed);
  if (blocks > states.FreeBlocks(blocks)) return false;
  if (states.FreeFixed(fixed) < fixed) return false;
  call.steps.preempted_at.reset();
  state.reserved_blocks = needed;
  return true;
}

bool StepPlanner::DropStalled() {
  scope_.LookAtStalled();
  const StateArena& arena = scope_.states.arena();
  Call* last = nullptr;
  for (const auto& call : scope_.calls.running) {
    if (!call->delivery.stalled_since) continue;
    const SlotState& state = call->session->in_runner.state;
    if (arena.UnsharedBlocks(state.slot(), 1) == 0 &&
        (arena.spec().fixed_elements() == 0 || state.computed(arena) == 0)) {
      continue;
    }
    if (last == nullptr || call->progress.admission > last->progress.admission)
      last = call.get();
  }
  if (last == nullptr) return false;
  // It keeps its slot, and computes its history again when its caller reads or sends.
  DropState(*last);
  return true;
}

}  // namespace mnemon
