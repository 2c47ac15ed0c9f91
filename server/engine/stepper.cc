// SPDX-License-Identifier: MIT
#include "server/engine/stepper.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "server/engine/engine_errors.h"

namespace mnemon {
namespace {

LogitsMode ModeOf(const ScheduledChunk& chunk) {
  const Call& call = *chunk.call;
  const int64_t end = chunk.position + chunk.count;
  if (call.scoring) {
    return end >= call.scoring->next ? LogitsMode::kAll : LogitsMode::kNone;
  }
  const bool sample = call.max_tokens > 0 && end == call.session->history.size();
  return sample ? LogitsMode::kLast : LogitsMode::kNone;
}

}  // namespace

absl::Status Stepper::ModelFailure(std::string_view what) {
  failures_.emplace_back(what);
  return MakeError(absl::StatusCode::kInternal, "the model failed to step",
                   {.reason = "MODEL_FAILURE"});
}

absl::Status Stepper::Step(std::span<const ScheduledChunk> chunks, bool& torn) {
  torn = true;
  try {
    segments_.clear();
    size_t count = 0;
    for (const ScheduledChunk& chunk : chunks) count += chunk.count;
    tokens_.resize(count);
    std::span<int32_t> rest = tokens_;
    for (const ScheduledChunk& chunk : chunks) {
      Session& session = *chunk.call->session;
      session.state.BeforeStep(arena_, chunk.count, chunk.kept);
      const std::span<int32_t> tokens = rest.first(chunk.count);
      rest = rest.subspan(chunk.count);
      session.history.Read(chunk.position, tokens);
      segments_.push_back({.slot = session.state.slot(),
                           .position = chunk.position,
                           .tokens = tokens,
                           .logits = ModeOf(chunk)});
    }
    const auto rows = static_cast<size_t>(LogitsRows(segments_));
    rows_.reserve(rows);
    const size_t floats = rows * decoder_.config().vocab;
    if (logits_.size() < floats) {
      // Nothing is copied or set: pages that no step touches cost nothing.
      const size_t grown = std::max(floats, 2 * logits_.size());
      logits_.clear();
      logits_.resize(grown);
    }
    absl::Status status = decoder_.Step(segments_, arena_, logits_.data());
    torn = IsNonFiniteState(status);
    return status;
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::exception& e) {
    return ModelFailure(e.what());
  } catch (...) {
    return ModelFailure("unknown exception");
  }
}

void Stepper::Run(std::span<ScheduledChunk> chunks) {
  bool torn = false;
  absl::Status status = Step(chunks, torn);
  if (!status.ok()) {
    for (ScheduledChunk& chunk : chunks) {
      chunk.call->alone_until = chunk.position + chunk.count;
      if (torn) chunk.call->session->state.RollBack(arena_, chunk.position);
    }
    if (chunks.size() > 1) return;
    if (IsNonFiniteState(status)) {
      const std::string& session = chunks[0].call->session->id;
      status = CatchOutOfMemory(
          {}, [&] { return engine_errors::NonFiniteState(status, session); });
    }
    chunks[0].status = std::move(status);
    return;
  }
  ListRows(chunks);
  samplers_.Run(static_cast<int64_t>(rows_.size()), decoder_.config().vocab,
                [this](int64_t r, SamplerScratch& scratch) {
                  Row& row = rows_[static_cast<size_t>(r)];
                  row.status = CatchOutOfMemory({}, [&] {
                    return row.scored ? Score(row, scratch) : Sample(row, scratch);
                  });
                });
  for (Row& row : rows_) row.chunk->status.Update(std::move(row.status));
}

void Stepper::ListRows(std::span<ScheduledChunk> chunks) {
  const auto vocab = static_cast<size_t>(decoder_.config().vocab);
  std::span<float> rest = logits_;
  rows_.clear();
  for (size_t i = 0; i < chunks.size(); ++i) {
    ScheduledChunk& chunk = chunks[i];
    chunk.computed = true;
    const int64_t count = LogitsRows(std::span(segments_).subspan(i, 1));
    const std::span<float> logits = rest.first(static_cast<size_t>(count) * vocab);
    rest = rest.subspan(logits.size());
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

absl::Status Stepper::Score(const Row& row, SamplerScratch& scratch) {
  const Call& call = *row.chunk->call;
  MNEMON_ASSIGN_OR_RETURN(*row.scored,
                          ScoreToken(row.logits, call.session->history[row.index],
                                     call.logprobs.candidates, scratch));
  return absl::OkStatus();
}

absl::Status Stepper::Sample(const Row& row, SamplerScratch& scratch) {
  ScheduledChunk& chunk = *row.chunk;
  Call& call = *chunk.call;
  call.penalties.Update(call.session->history);
  MNEMON_ASSIGN_OR_RETURN(const int32_t token,
                          mnemon::Sample(row.logits, call.sampling, row.index, scratch,
                                         call.penalties.counts()));
  if (call.logprobs.wanted) {
    MNEMON_ASSIGN_OR_RETURN(
        chunk.logprobs,
        ScoreToken(row.logits, token, call.logprobs.candidates, scratch));
  }
  chunk.token = token;
  if (call.stop_matcher) chunk.stop_string = call.stop_matcher->Push(token);
  return absl::OkStatus();
}

}  // namespace mnemon
