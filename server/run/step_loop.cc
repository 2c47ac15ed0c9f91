// SPDX-License-Identifier: MIT
#include "server/run/step_loop.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "server/requests/engine_errors.h"
#include "server/run/durable_sessions.h"

namespace mnemon {

void StepLoop::Run(std::vector<ScheduledChunk>& planned) {
  const EngineOptions& options = scope_.context->options;
  // Those that were part of a failed step come last, each in a step of its own.
  const auto together = std::stable_partition(
      planned.begin(), planned.end(), [](const ScheduledChunk& chunk) {
        return chunk.position >= chunk.call->steps.alone_until;
      });
  const std::span chunks(planned);
  const size_t count = together - planned.begin();
  // What stays under way is computed in the turn of another one that waits.
  int left = scope_.model.decoder->most_under_way() - 1;
  if (count == 0 || count < chunks.size() ||
      (left > 0 && scope_.context->turns.Wanted())) {
    left = 0;
  }
  Step(chunks.first(count), left);
  for (size_t i = count; i < chunks.size() && !stop_ && !scope_.restart_at; ++i) {
    const Call& call = *chunks[i].call;
    const std::optional<RunnerScope::Time> time_up = call.time_up();
    // The next round ends it.
    if (call.cancelled() || (time_up && *time_up <= options.clock->Now())) continue;
    Step(chunks.subspan(i, 1), 0);
  }
  planned.clear();
}

void StepLoop::Step(std::span<ScheduledChunk> chunks, int left) {
  Stepper& stepper = scope_.stepper;
  PoolTurns& turns = scope_.context->turns;
  std::span<ScheduledChunk> done;
  if (!chunks.empty()) {
    const PoolTurns::Piece piece(turns, scope_.turn);
    inbox_.SignProgress();
    if (stepper.under_way() == 0) step_begin_ = scope_.context->options.clock->Now();
    if (!stepper.Submit(chunks, scope_.states.arena())) left = 0;
    if (stepper.under_way() > left) done = CompleteStep();
  }
  Commit(done);
  while (stepper.under_way() > left) {
    {
      const PoolTurns::Piece piece(turns, scope_.turn);
      done = CompleteStep();
    }
    Commit(done);
  }
}

std::span<ScheduledChunk> StepLoop::CompleteStep() {
  const EngineOptions& options = scope_.context->options;
  const std::span<ScheduledChunk> done = scope_.stepper.Complete(scope_.states.arena());
  inbox_.SignProgress();
  const RunnerScope::Time end = options.clock->Now();
  ++scope_.counts.steps;
  for (const ScheduledChunk& chunk : done) measured_.tokens += chunk.count;
  measured_.interval = measured_.interval.value_or(LoadEstimate::Duration(0)) + end -
                       scope_.last_step_end.value_or(step_begin_);
  scope_.last_step_end = end;
  if (options.observer) {
    options.observer->OnStep(scope_.index, static_cast<int64_t>(done.size()),
                             end - step_begin_);
  }
  step_begin_ = end;
  return done;
}

void StepLoop::Commit(std::span<ScheduledChunk> chunks) {
  for (const std::string& what : scope_.stepper.TakeFailures()) {
    scope_.callbacks.Add(LogCallback("model_step_failed", what));
  }
  for (ScheduledChunk& chunk : chunks) Commit(chunk);
  if (scope_.stepper.lost()) device_.Lose();
  ends_.EndWaiting();
}

void StepLoop::Commit(ScheduledChunk& chunk) {
  const std::shared_ptr<Call> call = chunk.call->shared_from_this();
  if (chunk.computed) {
    scope_.counts.tokens_computed += chunk.count;
    call->steps.computed_tokens += chunk.count;
    if (chunk.available > 1) call->steps.prefill_served += chunk.count;
  }
  scope_.states.UpdateBytes(call->session->in_runner);
  if (call->delivery.end_later) return;
  if (!chunk.status.ok()) {
    ends_.End(call, std::move(chunk.status));
    return;
  }
  if (call->scoring) {
    for (TokenLogprobs& scored : chunk.scored) {
      const int32_t token = scored.token;
      scope_.Notify(*call,
                    call->stream->Push(call->scoring->next, token, std::move(scored),
                                       *scope_.last_step_end));
      ++call->scoring->next;
    }
    return;
  }
  if (chunk.token) return CommitToken(chunk, call);
  const GenerationProgress& progress = call->progress;
  const int64_t computed = chunk.position + chunk.count;
  if (computed < progress.prompt_end) {
    const PromptProgress done{
        .computed = std::max<int64_t>(0, computed - progress.base),
        .of = progress.prompt_end - progress.base};
    scope_.Notify(*call, call->stream->Report(done, *scope_.last_step_end));
  }
  if (call->params->max_tokens == 0 && chunk.computed &&
      computed >= call->to_compute()) {
    ends_.End(call, absl::OkStatus(), FinishFacts{});
  }
}

void StepLoop::CommitToken(ScheduledChunk& chunk, const std::shared_ptr<Call>& call) {
  if (!call->progress.prompt_done) call->progress.prompt_done = *scope_.last_step_end;
  call->session->in_runner.reserved_blocks = 0;
  const int32_t token = *chunk.token;
  TokenHistory& history = call->session->history;
  const int64_t index = history.size();
  history.Append({&token, 1});
  try {
    scope_.Notify(*call, call->stream->Push(index, token, std::move(chunk.logprobs),
                                            *scope_.last_step_end,
                                            std::move(chunk.introspection)));
  } catch (const std::bad_alloc&) {
    history.Cut(index);  // a token that nobody will get
    return ends_.End(call, OutOfMemoryError());
  }
  ++call->progress.generated;
  ++scope_.counts.tokens_generated;
  if (history.size() % scope_.context->options.snapshot_tokens == 0) {
    StoreTurn(scope_, call->session, /*ends=*/false);
  }
  if (auto facts = call->EndWith(token, index, scope_.context_limit)) {
    // One that ended once ends as it did then.
    if (call->resume.record && call->resume.record->end) {
      return ends_.End(call, call->resume.record->end->status,
                       call->resume.record->end->facts);
    }
    return ends_.End(call, absl::OkStatus(), std::move(facts));
  }
  if (history.size() % 512 == 1 && !HistoryFits(scope_, *call)) {
    ends_.End(call, CatchOutOfMemory({}, engine_errors::MemoryLimit));
  }
}

}  // namespace mnemon
