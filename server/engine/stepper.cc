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

absl::Status Stepper::Step(std::span<const ScheduledChunk> chunks, bool& thrown) {
  thrown = true;
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
    const size_t floats = LogitsRows(segments_) * decoder_.config().vocab;
    if (logits_.size() < floats) {
      // Nothing is copied or set: pages that no step touches cost nothing.
      const size_t grown = std::max(floats, 2 * logits_.size());
      logits_.clear();
      logits_.resize(grown);
    }
    absl::Status status = decoder_.Step(segments_, arena_, logits_.data());
    thrown = false;
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
  bool thrown = false;
  absl::Status status = Step(chunks, thrown);
  if (!status.ok()) {
    for (ScheduledChunk& chunk : chunks) {
      chunk.call->alone_until = chunk.position + chunk.count;
      // After a Status no state has changed; after an exception any may have.
      if (thrown) chunk.call->session->state.RollBack(arena_, chunk.position);
    }
    if (chunks.size() == 1) chunks[0].status = std::move(status);
    return;
  }
  const size_t vocab = decoder_.config().vocab;
  size_t row = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    ScheduledChunk& chunk = chunks[i];
    chunk.computed = true;
    const size_t rows = LogitsRows(std::span(segments_).subspan(i, 1));
    if (rows == 0) continue;
    const auto logits = std::span(logits_).subspan(row * vocab, rows * vocab);
    row += rows;
    chunk.status = CatchOutOfMemory({}, [&] {
      return chunk.call->scoring ? Score(chunk, logits) : Sample(chunk, logits);
    });
  }
}

absl::Status Stepper::Score(ScheduledChunk& chunk, std::span<const float> logits) {
  const Call& call = *chunk.call;
  const size_t vocab = decoder_.config().vocab;
  for (int64_t i = 0; i < chunk.count; ++i) {
    const int64_t index = chunk.position + i + 1;
    // Computed once more after a step that failed.
    if (index < call.scoring->next) continue;
    MNEMON_ASSIGN_OR_RETURN(
        TokenLogprobs scored,
        ScoreToken(logits.subspan(i * vocab, vocab), call.session->history[index],
                   call.logprobs.candidates, sampler_));
    chunk.scored.push_back(std::move(scored));
  }
  return absl::OkStatus();
}

absl::Status Stepper::Sample(ScheduledChunk& chunk, std::span<const float> logits) {
  Call& call = *chunk.call;
  call.penalties.Update(call.session->history);
  MNEMON_ASSIGN_OR_RETURN(
      const int32_t token,
      mnemon::Sample(logits, call.sampling, chunk.position + chunk.count, sampler_,
                     call.penalties.counts()));
  if (call.logprobs.wanted) {
    MNEMON_ASSIGN_OR_RETURN(
        chunk.logprobs, ScoreToken(logits, token, call.logprobs.candidates, sampler_));
  }
  chunk.token = token;
  if (call.stop_matcher) chunk.stop_string = call.stop_matcher->Push(token);
  return absl::OkStatus();
}

}  // namespace mnemon
