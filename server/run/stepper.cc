// SPDX-License-Identifier: MIT
#include "server/run/stepper.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

template <class Body>
void Stepper::Guard(Step& step, const Body& body) {
  step.torn = true;
  try {
    step.status = body();
    step.torn = IsNonFiniteState(step.status);
  } catch (const std::bad_alloc&) {
    step.status = OutOfMemoryError();
  } catch (const std::exception& e) {
    step.status = ModelFailure(e.what());
  } catch (...) {
    step.status = ModelFailure("unknown exception");
  }
}

absl::Status Stepper::ModelFailure(std::string_view what) {
  return CatchOutOfMemory({}, [&] {
    failures_.emplace_back(what);
    return MakeError(absl::StatusCode::kInternal, "the model failed to step",
                     {.reason = "MODEL_FAILURE"});
  });
}

bool Stepper::Submit(std::span<ScheduledChunk> chunks, StateArena& arena) {
  Step& step = steps_[(oldest_ + static_cast<size_t>(under_way_)) % steps_.size()];
  step.chunks.clear();
  step.chunks.reserve(chunks.size());
  std::ranges::move(chunks, std::back_inserter(step.chunks));
  Guard(step, [&] { return Begin(step, arena); });
  ++under_way_;
  step.begun = step.status.ok();
  Count(step, 1);
  return step.begun;
}

absl::Status Stepper::Begin(Step& step, StateArena& arena) {
  step.segments.clear();
  size_t count = 0, draws = 0;
  for (const ScheduledChunk& chunk : step.chunks) count += chunk.count;
  step.tokens.resize(count);
  std::span<int32_t> rest = step.tokens;
  for (ScheduledChunk& chunk : step.chunks) {
    Call& call = *chunk.call;
    call.session->in_runner.state.BeforeStep(arena, chunk.count, chunk.kept);
    step.segments.push_back(SegmentOf(chunk, rest.first(chunk.count)));
    rest = rest.subspan(chunk.count);
    if (!step.segments.back().draw) continue;
    ++draws;
    if (!call.steps.draws) MNEMON_RETURN_IF_ERROR(BeginDraws(call));
  }
  step.drawn.resize(draws);
  const auto rows = static_cast<size_t>(LogitsRows(step.segments));
  rows_.reserve(rows);
  const size_t floats = rows * decoder_.model().vocab;
  if (step.logits.size() < floats) {
    // Nothing is copied or set: pages that no step touches cost nothing.
    const size_t grown = std::max(floats, 2 * step.logits.size());
    step.logits.clear();
    step.logits.resize(grown);
  }
  return decoder_.Submit(step.segments, arena, step.logits.data());
}

Segment Stepper::SegmentOf(ScheduledChunk& chunk, std::span<int32_t> tokens) const {
  const Call& call = *chunk.call;
  const TokenHistory& history = call.session->history;
  const int64_t end = chunk.position + chunk.count;
  Segment segment{.slot = call.session->in_runner.state.slot(),
                  .position = chunk.position,
                  .tokens = tokens,
                  .logits = LogitsMode::kNone};
  if (chunk.position < history.size()) {
    history.Read(chunk.position, tokens);
  } else {
    tokens[0] = kDrawn;
  }
  if (call.scoring) {
    const int64_t first = std::max(chunk.position + 1, call.scoring->next);
    chunk.results = std::max<int64_t>(0, end - first + 1);
    if (chunk.results > 0) segment.logits = LogitsMode::kAll;
  } else if (call.params->max_tokens > 0 &&
             end == history.size() + call.steps.under_way.results) {
    chunk.results = 1;
    segment.draw = decoder_.draws();
    if (!segment.draw || call.params->logprobs.wanted)
      segment.logits = LogitsMode::kLast;
    if (call.params->introspection.any()) {
      segment.introspection = &chunk.introspection.emplace();
      segment.introspection->fields = call.params->introspection;
    }
  }
  return segment;
}

absl::Status Stepper::BeginDraws(Call& call) {
  const TokenHistory& history = call.session->history;
  const int64_t most =
      call.sampling.penalizes() ? call.sampling.penalty_window_tokens : 0;
  window_.resize(static_cast<size_t>(std::min(most, history.size())));
  history.Read(history.size() - static_cast<int64_t>(window_.size()), window_);
  MNEMON_RETURN_IF_ERROR(decoder_.BeginDraws(call.session->in_runner.state.slot(),
                                             call.sampling, window_));
  call.steps.draws = true;
  return absl::OkStatus();
}

void Stepper::EndDraws(Call& call) {
  if (std::exchange(call.steps.draws, false)) {
    decoder_.EndDraws(call.session->in_runner.state.slot());
  }
}

void Stepper::Count(const Step& step, int sign) {
  for (const ScheduledChunk& chunk : step.chunks) {
    CallSteps::UnderWay& under_way = chunk.call->steps.under_way;
    under_way.steps += sign;
    if (!step.begun) continue;
    under_way.tokens += sign * chunk.count;
    under_way.results += sign * chunk.results;
  }
}

std::span<ScheduledChunk> Stepper::Complete(StateArena& arena) {
  Step& step = steps_[oldest_];
  if (step.begun) {
    Guard(step, [&] { return decoder_.Complete(step.drawn); });
    step.torn = !step.status.ok();
  }
  Count(step, -1);
  oldest_ = (oldest_ + 1) % steps_.size();
  --under_way_;
  if (!step.status.ok()) {
    Fail(step, arena);
    return step.chunks;
  }
  ListRows(step);
  samplers_.Run(static_cast<int64_t>(rows_.size()), decoder_.model().vocab,
                [this](int64_t r, SamplerScratch& scratch) {
                  Row& row = rows_[static_cast<size_t>(r)];
                  row.status = CatchOutOfMemory({}, [&] { return Use(row, scratch); });
                });
  for (Row& row : rows_) row.chunk->status.Update(std::move(row.status));
  return step.chunks;
}

void Stepper::Fail(Step& step, StateArena& arena) {
  lost_ = IsDeviceLost(step.status);
  for (; under_way_ > 0; --under_way_) {
    const size_t newest = oldest_ + static_cast<size_t>(under_way_) - 1;
    Step& behind = steps_[newest % steps_.size()];
    Count(behind, -1);
    if (!lost_ && (behind.begun || behind.torn)) RollBack(behind, arena);
  }
  if (lost_) return;
  if (step.torn) RollBack(step, arena);
  for (const ScheduledChunk& chunk : step.chunks) {
    chunk.call->steps.alone_until = chunk.position + chunk.count;
  }
  if (step.chunks.size() > 1) return;
  ScheduledChunk& chunk = step.chunks[0];
  chunk.status = std::move(step.status);
  if (IsNonFiniteState(chunk.status)) {
    chunk.status = CatchOutOfMemory({}, [&] {
      return engine_errors::NonFiniteState(chunk.status, chunk.call->session->id);
    });
  }
}

void Stepper::RollBack(Step& step, StateArena& arena) {
  for (const ScheduledChunk& chunk : step.chunks) {
    EndDraws(*chunk.call);
    chunk.call->session->in_runner.state.RollBack(arena, chunk.position);
  }
}

void Stepper::ListRows(Step& step) {
  const auto vocab = static_cast<size_t>(decoder_.model().vocab);
  std::span<float> rest = step.logits;
  size_t draws = 0;
  rows_.clear();
  for (size_t i = 0; i < step.chunks.size(); ++i) {
    ScheduledChunk& chunk = step.chunks[i];
    chunk.computed = true;
    const int64_t count = LogitsRows(std::span(step.segments).subspan(i, 1));
    const std::span<float> logits = rest.first(static_cast<size_t>(count) * vocab);
    rest = rest.subspan(logits.size());
    if (step.segments[i].draw) {
      const int32_t drawn = step.drawn[draws++];
      if (drawn == kUnusableLogits || drawn == kNoTokenAllowed) {
        chunk.status = CatchOutOfMemory(
            {}, drawn == kUnusableLogits ? UnusableLogits : NoTokenAllowed);
        continue;
      }
      chunk.token = drawn;
    }
    if (count == 0) continue;
    const int64_t end = chunk.position + chunk.count;
    int64_t first = end - count + 1;
    if (chunk.call->scoring) {
      // Those before are computed once more after a step that failed.
      first = std::max(first, chunk.call->scoring->next);
      chunk.status = CatchOutOfMemory({}, [&] {
        chunk.scored.resize(static_cast<size_t>(end - first + 1));
        return absl::OkStatus();
      });
      if (!chunk.status.ok()) continue;
    }
    for (int64_t index = first; index <= end; ++index) {
      const auto at = static_cast<size_t>(index - (end - count + 1));
      rows_.push_back({.chunk = &chunk,
                       .logits = logits.subspan(at * vocab, vocab),
                       .index = index,
                       .scored = chunk.call->scoring
                                     ? &chunk.scored[static_cast<size_t>(index - first)]
                                     : nullptr});
    }
  }
}

absl::Status Stepper::Use(const Row& row, SamplerScratch& scratch) {
  ScheduledChunk& chunk = *row.chunk;
  Call& call = *chunk.call;
  const TokenHistory& history = call.session->history;
  if (!row.scored && !chunk.token) {
    call.steps.penalties.Update(history);
    MNEMON_ASSIGN_OR_RETURN(chunk.token,
                            Sample(row.logits, call.sampling, row.index, scratch,
                                   call.steps.penalties.counts()));
  }
  const LogprobOptions& logprobs = call.params->logprobs;
  if (!row.scored && !logprobs.wanted) return absl::OkStatus();
  const int32_t token = row.scored ? history[row.index] : *chunk.token;
  TokenLogprobs& scored = row.scored ? *row.scored : chunk.logprobs.emplace();
  MNEMON_ASSIGN_OR_RETURN(scored,
                          ScoreToken(row.logits, token, logprobs.candidates, scratch));
  return absl::OkStatus();
}

}  // namespace mnemon
