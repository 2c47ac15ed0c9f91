// SPDX-License-Identifier: MIT
// The step form of an autoregressive model, and the one-pass form of an encoder, as the
// engine sees them. No torch, no tensors: token ids in, logits out, state in an arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/aligned_floats.h"
#include "model/compute/weights.h"
#include "model/decoder/introspection.h"
#include "model/description/description.h"
#include "model/sampling/sampling_params.h"
#include "model/state/arena.h"
#include "model/state/state_memory.h"

namespace mnemon {

enum class LogitsMode { kNone, kLast, kAll };

// In place of a segment's only token: the one that the step before drew for its slot,
// which the host does not know yet.
inline constexpr int32_t kDrawn = -1;
// In place of a drawn token: why none could be drawn (UnusableLogits, NoTokenAllowed of
// model/sampling). A kDrawn that takes its place in the next step is any token.
inline constexpr int32_t kUnusableLogits = -2;
inline constexpr int32_t kNoTokenAllowed = -3;

// Consecutive tokens of one session.
struct Segment {
  int32_t slot = 0;
  int64_t position = 0;             // of tokens[0]; equals arena.length(slot)
  std::span<const int32_t> tokens;  // 1 .. kMaxChunk, or kDrawn alone
  LogitsMode logits = LogitsMode::kLast;
  // The decoder draws the token behind the last one, whatever `logits` says. REQUIRES:
  // Decoder::draws(), BeginDraws.
  bool draw = false;
  // What is filled for its only token, by the fields that it names, until the step is
  // complete; null: nothing. REQUIRES: Decoder::introspection() has them.
  Introspection* introspection = nullptr;
};

// Constant after construction but for scratch memory: one thread at a time.
//
// A step is submitted, and complete later. On the host it is computed when Submit
// returns. A device computes behind the host's back: meanwhile the next step may be
// submitted, which begins when the first one ends. Until a step is complete, the host
// does nothing to the arena that changes or gives back what the step uses: of its slots
// it only reserves more, saves fixed entries, drops those saved before earlier steps,
// and sets a floor up to the position of the segment.
class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual const ModelDescription& model() const = 0;
  // What a session's state consists of: a function of the model alone.
  virtual const StateSpec& spec() const = 0;
  // Names everything beside weights and history that decides bits: decoder, precision,
  // revision, and of the default decoder device class and library. States of another
  // numerics_id are rebuilt.
  virtual const std::string& numerics_id() const = 0;

  // Of memory that the weights take.
  virtual int64_t weight_bytes() const = 0;

  // Steps that may be submitted and not complete, at least 1.
  virtual int most_under_way() const { return 1; }
  // Whether it can draw tokens; else the host samples from logits.
  virtual bool draws() const { return false; }
  // What it can say of a token's step; nothing by default. A step with a segment that
  // asks takes longer, for all of its segments; the bits of logits and states are the
  // same.
  virtual IntrospectionFields introspection() const { return {}; }
  // Where the states of an arena that it works in lie, for one arena; null: in host
  // memory. Throws std::bad_alloc.
  virtual std::unique_ptr<StateMemory> MakeStateMemory() { return nullptr; }

  // Begins to compute every segment, and advances its slot. Host work only: it waits
  // for no step. Segments and tokens are read before it returns; `logits` is written
  // until the step is complete: rows of V floats packed in segment order (none, one or
  // tokens.size() rows per segment). It may be null when no segment wants any.
  //
  // A session's logits depend on its own history alone: bit for bit the same in any
  // batch, slot, order and split into segments, whatever else is under way. A drawn
  // token is that of Sample (model/sampling) from these logits.
  //
  // On error the step is not under way and no slot has advanced; those before it go on:
  // INVALID_ARGUMENT (empty or long segment, token out of range, wrong position, a slot
  // twice, a draw where it does not draw, an introspection of several tokens or of what
  // the decoder does not have), FAILED_PRECONDITION (beyond the context),
  // RESOURCE_EXHAUSTED (no blocks or no memory), INTERNAL, NonFiniteState and
  // DeviceLost: see below. REQUIRES: fewer than most_under_way() steps are under way;
  // `arena` was created with spec() and MakeStateMemory().
  virtual absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                              float* logits) = 0;
  // Waits for the oldest step that is under way. `drawn`: the tokens of the segments
  // that draw, packed in their order. On error no step is under way any more: this one
  // has failed, those behind it are without effect. The slots of all of them stay
  // advanced; their fixed entries, and their rows from the first of these segments on,
  // are in any condition. RESOURCE_EXHAUSTED, INTERNAL;
  //
  // - NonFiniteState: the state of a segment would not stay finite
  //   (docs/state_contract.md). Where it comes from Submit, too, the fixed entries of
  //   all slots of the step are in any condition;
  // - DeviceLost, also from Submit and BeginDraws: nothing is under way, and all states
  //   in the arena, what was given to BeginDraws and what Take of a state memory
  //   returned are gone. Calls return this error until Restart succeeds; those of state
  //   memories have no effect.
  virtual absl::Status Complete(std::span<int32_t> drawn) { return absl::OkStatus(); }
  // A step of the only tool that uses the decoder, from Submit to Complete; nothing is
  // drawn. Their errors.
  absl::Status Step(std::span<const Segment> segments, StateArena& arena,
                    float* logits);

  // Draws for `slot` follow, with these parameters, until EndDraws. `window`: the
  // newest tokens of the history before the first one that will be drawn, as many as
  // the penalties look at; the decoder counts on from there. Again for the same slot:
  // in place of what it knew. RESOURCE_EXHAUSTED, DeviceLost. REQUIRES: draws();
  // Rounded parameters; no step under way draws for the slot.
  virtual absl::Status BeginDraws(int32_t slot, const SamplingParams& params,
                                  std::span<const int32_t> window) {
    return absl::OkStatus();
  }
  // No effect without BeginDraws. REQUIRES: no step under way draws for the slot.
  virtual void EndDraws(int32_t slot) {}

  // After DeviceLost: brings the device back, with the weights. May take long. The
  // errors of loading, UNAVAILABLE; it can be called again then. REQUIRES: no arena and
  // no state memory made before exists.
  virtual absl::Status Restart() { return absl::OkStatus(); }

  // Writes a carry of the sequence form (one view per entry of Model::carry_spec(),
  // batch of one: [n, row...] for growing entries, the entry's shape for fixed ones),
  // reached after `position` tokens, into a fresh slot. One way. The errors of
  // BeginImport, and NonFiniteState; the slot is fresh then.
  virtual absl::Status Import(int64_t position, const TensorViews& carry,
                              StateArena& arena, int32_t slot) = 0;
};

// INTERNAL, NON_FINITE_STATE.
absl::Status NonFiniteState();
bool IsNonFiniteState(const absl::Status& status);
// UNAVAILABLE, DEVICE_LOST.
absl::Status DeviceLost();
bool IsDeviceLost(const absl::Status& status);

// Number of logits rows that `segments` ask for.
int64_t LogitsRows(std::span<const Segment> segments);

// What every decoder checks before it touches anything; the errors of Submit above.
// `draws`, `introspection`: those of Decoder.
absl::Status CheckSegments(std::span<const Segment> segments, int64_t vocab,
                           const StateArena& arena, bool draws = false,
                           const IntrospectionFields& introspection = {});

// The first row of a growing entry that a query at `position` may need.
int64_t FirstVisible(const StateEntry& entry, int64_t position);

// How every decoder begins to import a carry: checks its entries and their shapes, and
// that the slot is fresh; reserves the rows that queries from `position` on can see.
// INVALID_ARGUMENT names the entry; RESOURCE_EXHAUSTED without room, the slot is then
// still fresh.
absl::Status BeginImport(int64_t position, const TensorViews& carry,
                         const StateSpec& carry_spec, StateArena& arena, int32_t slot);

// Which keys a position of an encoder sees.
enum class PredictMask {
  kConfig,  // as the model has it
  kNone,    // all
  kCausal,  // those up to itself
  kExplicit,
};

// Attention maps: what each position (row) gives to each key (column), rows sum to 1.
enum class AttentionMaps {
  kNone,
  kUsed,  // the weights that made the logits
  // As the attention notebook computes them (get_attention_maps): from the input of
  // each block before its norm, under the same mask.
  kNotebook,
};

// What one prediction costs, for limits on requests; INT64_MAX where a number would be
// beyond that.
struct PredictCost {
  int64_t multiply_adds = 0;
  // Of input, output and what is computed on the way. The scratch memory of the kernels
  // is not counted: it is the predictor's, for all its predictions.
  int64_t peak_bytes = 0;
};

class Prediction;

// An encoder: sequences whole in one call, no state. Constant after construction but
// for scratch memory: one thread at a time, its predictions included.
class Predictor {
 public:
  struct Input {
    std::vector<int32_t> tokens;  // [B, T], row-major
    int64_t batch = 0;            // B
    PredictMask mask = PredictMask::kConfig;
    // With kExplicit, else empty: [T, T] or [B, T, T], row-major, a row per query;
    // non-zero = takes part. A position that sees nothing gets zeros from attention.
    std::vector<uint8_t> explicit_mask;
    AttentionMaps maps = AttentionMaps::kNone;
  };
  struct Output {
    UnsetFloats logits;  // [B, T, V]
    std::vector<UnsetFloats>
        maps;  // per block of attention [B, H, T, T]; empty unless asked
  };

  virtual ~Predictor() = default;

  virtual const ModelDescription& model() const = 0;
  // As Decoder::numerics_id().
  virtual const std::string& numerics_id() const = 0;

  // As Decoder::weight_bytes().
  virtual int64_t weight_bytes() const = 0;

  // Longest sequence, T.
  virtual int64_t max_positions() const = 0;

  // REQUIRES: CheckPredict accepts the input.
  virtual PredictCost Cost(const Input& input) const = 0;

  // Takes the memory that the prediction needs; computes nothing yet, and does not use
  // the thread pool. The predictor must outlive the prediction; any number of them may
  // be under way. RESOURCE_EXHAUSTED (no memory), INTERNAL. REQUIRES: CheckPredict
  // accepts the input.
  virtual absl::StatusOr<std::unique_ptr<Prediction>> Begin(Input input) = 0;

  // Checks the input and makes a prediction from its beginning to its end; the errors
  // of CheckPredict, Begin and Advance.
  absl::StatusOr<Output> Predict(Input input);
};

// One prediction under way. A sequence's numbers depend on the sequence and its mask
// alone: bit for bit the same in any batch and however pieces of several predictions
// take turns. It may be destroyed at any time.
class Prediction {
 public:
  virtual ~Prediction() = default;

  // Computes the next piece: at most kPieceMultiplyAdds, or one row of one attention
  // head where that takes more. True when all is done. After an error
  // (RESOURCE_EXHAUSTED, INTERNAL) the prediction can only be destroyed.
  virtual absl::StatusOr<bool> Advance() = 0;

  // Those that the pieces so far have done, of what PredictMultiplyAdds counts.
  virtual int64_t multiply_adds() const = 0;

  // What was computed. REQUIRES: Advance has returned true; once.
  virtual Predictor::Output TakeOutput() = 0;
};

// Multiply-adds of a piece. Other arithmetic, rows and runs of the thread pool count as
// multiply-adds of the same time. No clock ends a piece: it takes at most 20 ms where
// the pool does 0.84 * 10^9 multiply-adds, or reads 3.4 GB of weights, in a second; one
// core with AVX2 takes 0.5 to 2 ms.
inline constexpr int64_t kPieceMultiplyAdds = int64_t{16} << 20;

// Those of a prediction, [B, T]; INT64_MAX where they would be beyond that.
int64_t PredictMultiplyAdds(const ModelDescription& model, int64_t batch, int64_t time,
                            AttentionMaps maps);

// Whether a predictor can compute the input. INVALID_ARGUMENT names the field (tokens,
// explicit_mask); FAILED_PRECONDITION (T beyond max_positions).
absl::Status CheckPredict(const Predictor::Input& input, int64_t vocab,
                          int64_t max_positions);

}  // namespace mnemon
