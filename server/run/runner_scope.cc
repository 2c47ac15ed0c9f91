// SPDX-License-Identifier: MIT
#include "server/run/runner_scope.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/residency/runner_arena.h"

namespace mnemon {
namespace {

// Ends of calls that one round records for the estimate.
constexpr size_t kMostEndsRecorded = 64;

// How long a runner waits for memory before a call ends for want of it.
constexpr std::chrono::milliseconds kMemoryOnItsWay{50};
constexpr std::chrono::milliseconds kMemoryPromised{1000};

int64_t ContextOf(const EngineModel& model) {
  const int64_t state = model.decoder->spec().max_positions();
  return std::min(state, model.facts.context_limit.value_or(state));
}

RunnerCalls::List& ListOf(RunnerCalls& calls, const Call& call) {
  switch (call.phase) {
    case Call::Phase::kWaiting:
      return calls.starting;
    case Call::Phase::kRunning:
      return calls.running;
    case Call::Phase::kDelivering:
      if (call.delivery.ending) return calls.ending;
      return call.delivery.unread ? calls.unread : calls.delivering;
    case Call::Phase::kOver:
      break;
  }
  return calls.over;
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
  if (const auto& since = call.delivery.stalled_since) {
    SetEarlier(due, FromIdle(*since + context->options.idle_timeout));
  }
  return due;
}

void RunnerScope::LookAtStalled() {
  calls.running.splice(calls.running.end(), calls.stalled);
  calls.stalled_counts = {};
  states.ResumeAside();
}

void RunnerScope::SetOver(Call& call) {
  calls.over.splice(calls.over.end(), ListOf(calls, call), call.at);
  states.LeaveSlot(call.session->in_runner);
  call.phase = Call::Phase::kOver;
  call.session->in_runner.call = nullptr;
}

void RunnerScope::Notify(Call& call, TokenStream::Notice notice) {
  if (notice == TokenStream::Notice::kNow) callbacks.Add(call.stream);
  if (notice == TokenStream::Notice::kLater) later.Add(TokenStream::Late(call.stream));
}

void RunnerScope::Finish(Call& call, absl::Status status,
                         std::optional<FinishFacts> facts, bool held) {
  if (call.stream->Finish(std::move(status), std::move(facts), held)) {
    callbacks.Add(call.stream);
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

bool RunnerScope::MayGetMemory(int64_t blocks, int64_t fixed) {
  const StateArena& arena = states.arena();
  if (arena.pools().blocks() == 0) blocks = 0;
  // Where the model's own limit is reached, memory of others does not help.
  const int64_t left =
      arena.pools().blocks() - arena.pools().blocks_used() - states.PromisedBlocks();
  const bool blocks_missing = blocks <= left && states.FreeBlocks(blocks) < blocks;
  const bool missing = blocks_missing || states.FreeFixed(fixed) < fixed;
  if (!missing && blocks > left) return false;
  const auto now = std::chrono::steady_clock::now();
  const auto waits = [&](std::optional<Time>& since, Time::duration most) {
    if (!since) since = now;
    if (now - *since <= most) return true;
    since.reset();
    return false;
  };
  // Others may take what was given up first.
  const int64_t bytes =
      blocks * BlockBytes(arena.spec()) + fixed * arena.spec().bytes_at(0);
  if (missing && context->AskForMemory(bytes, index)) {
    return waits(promised_since, kMemoryPromised);
  }
  // It has come just now, or is on its way through the threads of others, where nobody
  // sees it for a while.
  if (!waits(short_since, kMemoryOnItsWay)) return false;
  context->recycler.GiveUpReserves();
  return true;
}

}  // namespace mnemon
