// SPDX-License-Identifier: MIT
// One model call for the scheduled chunks of some calls, and the sampling of their next
// tokens. Here a model's exceptions and bad logits turn into the status of one call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/aligned_floats.h"
#include "model/decoder/decoder.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/sampling_team.h"
#include "server/engine/call.h"
#include "server/engine/scheduled_chunk.h"

namespace mnemon {

// Owned by a model runner's thread.
class Stepper {
 public:
  // All outlive the stepper. `samplers` are used within Run.
  Stepper(Decoder& decoder, StateArena& arena, SamplingTeam& samplers)
      : decoder_(decoder), arena_(arena), samplers_(samplers) {}

  // Computes `count` tokens of every chunk in one model call; then samples where the
  // end of a history is reached, or scores, each row of logits by one thread of the
  // pool. Results and errors are set in the chunks:
  // - The model call succeeded: `computed`; the state has advanced. `status` is the
  //   error of sampling or scoring: INTERNAL, NON_FINITE_LOGITS; INVALID_ARGUMENT,
  //   NO_TOKEN_ALLOWED; RESOURCE_EXHAUSTED, OUT_OF_MEMORY.
  // - It failed with one chunk: `status` is what the decoder returned, a
  //   NonFiniteState with the session; of an exception RESOURCE_EXHAUSTED,
  //   OUT_OF_MEMORY, or INTERNAL, MODEL_FAILURE.
  // - It failed with several chunks: no result; sets Call::alone_until of each, up to
  //   which the runner passes its chunks alone.
  // A model call that returned an error has changed no state; after one that threw or
  // returned NonFiniteState, the states are rolled back to a position at or before
  // their chunk. REQUIRES: count > 0;
  // every session holds a slot.
  void Run(std::span<ScheduledChunk> chunks);
  // Texts of the model's exceptions since the last call; may hold paths and addresses,
  // so it is for the log only.
  std::vector<std::string> TakeFailures() { return std::exchange(failures_, {}); }

 private:
  absl::Status Step(std::span<const ScheduledChunk> chunks, bool& torn);
  absl::Status ModelFailure(std::string_view what);
  // Lists the rows of logits that are sampled or scored.
  void ListRows(std::span<ScheduledChunk> chunks);

  // A row of logits, and what it is for.
  struct Row {
    ScheduledChunk* chunk;
    std::span<float> logits;  // [V]
    int64_t index;            // of the token that they predict
    TokenLogprobs* scored;    // of a scoring call
    absl::Status status;
  };
  // On any thread of the pool; rows of one call that are sampled come alone.
  static absl::Status Sample(const Row& row, SamplerScratch& scratch);
  static absl::Status Score(const Row& row, SamplerScratch& scratch);

  Decoder& decoder_;
  StateArena& arena_;
  SamplingTeam& samplers_;
  std::vector<int32_t> tokens_;  // of the segments
  std::vector<Segment> segments_;
  UnsetFloats logits_;
  std::vector<Row> rows_;
  std::vector<std::string> failures_;
};

}  // namespace mnemon
