// SPDX-License-Identifier: MIT
#include "server/run/runner_scope.h"

#include <algorithm>
#include <utility>

#include "server/residency/runner_arena.h"

namespace mnemon {
namespace {

// Ends of calls that one round records for the estimate.
constexpr size_t kMostEndsRecorded = 64;

int64_t ContextOf(const EngineModel& model) {
  const int64_t state = model.decoder->spec().max_positions();
  return std::min(state, model.facts.context_limit.value_or(state));
}

}  // namespace

RunnerScope::RunnerScope(size_t its_index, const EngineModel& its_model,
                         const std::shared_ptr<const EngineContext>& its_context,
                         std::unique_ptr<StateArena> arena, bool on_host)
    : index(its_index),
      model(its_model),
      context(its_context),
      context_limit(ContextOf(its_model)),
      capacity_bytes(StateCapacity(its_model.decoder->spec(), its_context->options)),
      states(std::move(arena), on_host, its_context->memory),
      stepper(*its_model.decoder, its_context->samplers) {
  calls.ended_generated.reserve(kMostEndsRecorded);
}

RunnerScope::Time RunnerScope::IdleNow() const {
  const EngineOptions& options = context->options;
  return (options.idle_clock ? options.idle_clock : options.clock)->Now();
}

RunnerScope::Time RunnerScope::FromIdle(Time time) const {
  const EngineOptions& options = context->options;
  if (!options.idle_clock) return time;
  return options.clock->Now() + (time - options.idle_clock->Now());
}

std::optional<RunnerScope::Time> RunnerScope::DueOf(const Call& call) const {
  std::optional<Time> due = call.time_up();
  if (!call.delivery.stalled_since) return due;
  const Time idle =
      FromIdle(*call.delivery.stalled_since + context->options.idle_timeout);
  return due ? std::min(*due, idle) : idle;
}

void RunnerScope::LookAtStalled() {
  calls.running.splice(calls.running.end(), calls.stalled);
  calls.stalled_counts = {};
  states.ResumeAside();
}

void RunnerScope::SetOver(Call& call) {
  calls.over.splice(calls.over.end(), calls.ListOf(call), call.at);
  states.LeaveSlot(call.session->in_runner);
  call.phase = Call::Phase::kOver;
  call.session->in_runner.call = nullptr;
}

void RunnerScope::Notify(Call& call, TokenStream::Notice notice) {
  switch (notice) {
    case TokenStream::Notice::kNone:
      break;
    case TokenStream::Notice::kNow:
      callbacks.Add(call.stream);
      break;
    case TokenStream::Notice::kLater:
      later.Add(TokenStream::Late(call.stream));
  }
}

bool RunnerScope::NothingToDo(const Call& call) const {
  if (!call.scoring) {
    return call.to_compute() <= call.session->in_runner.state.computed(states.arena());
  }
  return call.scoring->all_taken() &&
         call.scoring->next >= call.session->history.size() &&
         (!call.commits() || call.all_delivered());
}

bool RunnerScope::WaitsForCaller(const Call& call) {
  if (call.stream->space() == 0) return true;
  // A state that is lost is computed again with the next part.
  if (!call.scoring || !call.scoring->input.empty() ||
      call.scoring->next < call.session->history.size()) {
    return false;
  }
  return !call.scoring->closed() || (call.commits() && !call.all_delivered());
}

}  // namespace mnemon
