// SPDX-License-Identifier: MIT
// The steps of one decoder, each for the scheduled chunks of some calls, and the
// sampling of their next tokens. Turns a model's exceptions and bad logits into the
// status of one call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/aligned_floats.h"
#include "model/decoder/decoder.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/sampling_team.h"
#include "server/calls/call.h"
#include "server/run/scheduler.h"

namespace mnemon {

// Owned by a model runner's thread. Keeps CallSteps::under_way.
class Stepper {
 public:
  // Both outlive the stepper. `samplers` are used within Complete.
  Stepper(Decoder& decoder, SamplingTeam& samplers)
      : decoder_(decoder),
        samplers_(samplers),
        steps_(static_cast<size_t>(decoder.most_under_way())) {}

  // Begins to compute `count` tokens of every chunk in one step, and takes the chunks.
  // False: it failed, which Complete tells in its turn; until then no other step may be
  // begun. Throws std::bad_alloc, then nothing has changed. REQUIRES: fewer than
  // Decoder::most_under_way() steps are under way; count > 0; every session holds a
  // slot, every call is one of its own.
  bool Submit(std::span<ScheduledChunk> chunks, StateArena& arena);
  int under_way() const { return under_way_; }

  // Waits for the oldest step under way; then samples where the end of a history is
  // reached and no token was drawn, or scores, each row of logits by one thread of the
  // pool. Returns its chunks, valid until the next Submit, with results and errors:
  // - The step succeeded: `computed`. `status` is the error of sampling or scoring:
  //   INTERNAL, NON_FINITE_LOGITS; INVALID_ARGUMENT, NO_TOKEN_ALLOWED;
  //   RESOURCE_EXHAUSTED, OUT_OF_MEMORY.
  // - It failed with one chunk: `status` is what the decoder returned, a
  //   NonFiniteState with the session; of an exception RESOURCE_EXHAUSTED,
  //   OUT_OF_MEMORY, or INTERNAL, MODEL_FAILURE.
  // - It failed with several chunks: no result; sets CallSteps::alone_until of each.
  // - The device was lost: no result.
  // After a failed step none is under way; later ones had no effect. States that it has
  // left in any condition are rolled back to a position at or before their chunk.
  // REQUIRES: under_way() > 0; the results of the step before are part of the
  // histories.
  std::span<ScheduledChunk> Complete(StateArena& arena);

  // The device was lost: no step can be made before the decoder's Restart, all states
  // are gone, and nothing is known of any call's draws.
  bool lost() const { return lost_; }
  void Restarted() { lost_ = false; }

  // Nothing is drawn for the call's slot any more. REQUIRES: nothing is under way
  // there.
  void EndDraws(Call& call);

  // Texts of the model's exceptions since the last call; may hold paths and addresses,
  // so it is for the log only.
  std::vector<std::string> TakeFailures() { return std::exchange(failures_, {}); }

 private:
  struct Step {
    std::vector<ScheduledChunk> chunks;
    std::vector<int32_t> tokens;  // of the segments
    std::vector<Segment> segments;
    std::vector<int32_t> drawn;
    UnsetFloats logits;
    bool begun = false;   // by the decoder: slots have advanced
    absl::Status status;  // why it failed
    bool torn = false;    // and left states in any condition
  };
  // A row of logits, and what it is for.
  struct Row {
    ScheduledChunk* chunk;
    std::span<float> logits;  // [V]
    int64_t index;            // of the token that they predict
    TokenLogprobs* scored;    // of a scoring call
    absl::Status status;
  };

  // Calls body(), which returns the status of the step; `torn` where it throws.
  template <class Body>
  void Guard(Step& step, const Body& body);
  absl::Status ModelFailure(std::string_view what);
  absl::Status Begin(Step& step, StateArena& arena);
  // The segment of a chunk, whose tokens are read into `tokens`.
  Segment SegmentOf(ScheduledChunk& chunk, std::span<int32_t> tokens) const;
  absl::Status BeginDraws(Call& call);
  void Fail(Step& step, StateArena& arena);
  void RollBack(Step& step, StateArena& arena);
  // Adds what a step does for its calls to CallSteps::under_way; -1: takes it away.
  static void Count(const Step& step, int sign);
  // Sets what needs no row of logits; lists the rows that are sampled or scored.
  void ListRows(Step& step);
  // Samples or scores, on any thread of the pool; rows of one call that are sampled
  // come alone.
  static absl::Status Use(const Row& row, SamplerScratch& scratch);

  Decoder& decoder_;
  SamplingTeam& samplers_;
  std::vector<Step> steps_;  // a ring: under_way_ of them, from oldest_ on
  size_t oldest_ = 0;
  int under_way_ = 0;
  bool lost_ = false;
  std::vector<Row> rows_;
  std::vector<int32_t> window_;  // for BeginDraws
  std::vector<std::string> failures_;
};

}  // namespace mnemon
