// SPDX-License-Identifier: MIT
// The step form of an autoregressive model, and the one-pass form of an encoder, as the
// engine uses them. Free of torch and tensors: token ids in, logits out, state in an
// arena.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/memory/aligned_floats.h"
#include "model/compute/weights.h"
#include "model/decoder/introspection.h"
#include "model/description/description.h"
#include "model/sampling/sampling_params.h"
#include "model/state/arena.h"
#include "model/state/state_memory.h"

namespace mnemon {

enum class LogitsMode { kNone, kLast, kAll };

// Placeholder for a segment's only token: the token that the step before draws for its
// slot, which the host does not know yet.
inline constexpr int32_t kDrawn = -1;
// Codes in place of a drawn token: why none could be drawn (UnusableLogits,
// NoTokenAllowed of model/sampling). If the next step refers to it with kDrawn, it
// computes an arbitrary token.
inline constexpr int32_t kUnusableLogits = -2;
inline constexpr int32_t kNoTokenAllowed = -3;

// Consecutive tokens of one session.
struct Segment {
  int32_t slot = 0;
  int64_t position = 0;             // of tokens[0]; equals arena.length(slot)
  std::span<const int32_t> tokens;  // 1 .. kMaxChunk, or kDrawn alone
  LogitsMode logits = LogitsMode::kLast;
  // Draws the token after the last one, for any value of `logits`. REQUIRES:
  // Decoder::draws(), BeginDraws.
  bool draw = false;
  // Introspection of the segment's only token; the step fills the fields that it names
  // until it is complete. Null: none. REQUIRES: Decoder::introspection() has them.
  Introspection* introspection = nullptr;
};

// Immutable after construction except for scratch memory. Used by one thread at a time.
//
// A step is submitted and completes later. On the host, Submit computes it before it
// returns. A device computes asynchronously: meanwhile the next step may be submitted,
// which starts when the first ends. Until a step is complete, the host must not change
// or free what the step uses in the arena: for its slots, it may only reserve more
// rows, save fixed entries, drop those saved before earlier steps, and set a floor up
// to the position of the segment.
class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual const ModelDescription& model() const = 0;
  // Layout of a session's state: a function of the model alone.
  virtual const StateSpec& spec() const = 0;
  // Names everything besides weights and history that determines bits: decoder,
  // precision, revision and, for the default decoder, device class and library. States
  // of another numerics_id are recomputed.
  virtual const std::string& numerics_id() const = 0;

  // Memory of the weights.
  virtual int64_t weight_bytes() const = 0;

  // Most steps submitted and not complete, at least 1.
  virtual int most_under_way() const { return 1; }
  // Whether it can draw tokens; otherwise the host samples from logits.
  virtual bool draws() const { return false; }
  // Introspection that it can report about a token's step; nothing by default. A step
  // with a segment that asks takes longer for all of its segments; the bits of logits
  // and states are the same.
  virtual IntrospectionFields introspection() const { return {}; }
  // Memory for the states of one arena that this decoder works in; null: host memory.
  // Throws std::bad_alloc.
  virtual std::unique_ptr<StateMemory> MakeStateMemory() { return nullptr; }

  // Starts to compute every segment, and advances its slot. Takes host time only: it
  // does not wait for a step. Segments and tokens are read before it returns; `logits`
  // is written until the step is complete: rows of V floats packed in segment order
  // (none, one or tokens.size() rows per segment). It may be null if no segment wants
  // any.
  //
  // A session's logits depend only on its own history: they are bit for bit the same in
  // any batch, slot, order and split into segments, with any other steps under way. A
  // drawn token is that of Sample (model/sampling) from these logits.
  //
  // On error the step is not under way and no slot has advanced; earlier steps
  // continue. INVALID_ARGUMENT (empty or long segment, token out of range, wrong
  // position, a slot twice, a draw by a decoder that does not draw, an introspection of
  // several tokens or of fields that the decoder does not have), FAILED_PRECONDITION
  // (beyond the context), RESOURCE_EXHAUSTED (no blocks or no memory), INTERNAL,
  // NonFiniteState and DeviceLost: see below. REQUIRES: fewer than most_under_way()
  // steps are under way; `arena` was created with spec() and MakeStateMemory().
  virtual absl::Status Submit(std::span<const Segment> segments, StateArena& arena,
                              float* logits) = 0;
  // Waits for the oldest step under way. `drawn`: the tokens of the segments that draw,
  // packed in order. On error no step is under way any more: this one has failed, later
  // ones have no effect. The slots of all of them stay advanced; their fixed entries,
  // and their rows from the first of these segments on, are undefined.
  // RESOURCE_EXHAUSTED, INTERNAL;
  //
  // - NonFiniteState: the state of a segment would not stay finite
  //   (docs/state_contract.md). If Submit returns it, the fixed entries of all slots of
  //   the step are undefined as well;
  // - DeviceLost, also from Submit and BeginDraws: nothing is under way. All states in
  //   the arena, the effects of BeginDraws and the memory returned by Take of a state
  //   memory are lost. Calls return this error until Restart succeeds; calls of state
  //   memories have no effect.
  virtual absl::Status Complete(std::span<int32_t> drawn) { return absl::OkStatus(); }
  // Submit and Complete of one step for a tool that uses the decoder alone; draws
  // nothing. Returns their errors.
  absl::Status Step(std::span<const Segment> segments, StateArena& arena,
                    float* logits);

  // Enables draws for `slot` with these parameters until EndDraws. `window`: the newest
  // tokens of the history before the first drawn token, as many as the penalties need;
  // the decoder continues it. A second call for a slot replaces the first.
  // RESOURCE_EXHAUSTED, DeviceLost. REQUIRES: draws(); Rounded parameters; no step
  // under way draws for the slot.
  virtual absl::Status BeginDraws(int32_t slot, const SamplingParams& params,
                                  std::span<const int32_t> window) {
    return absl::OkStatus();
  }
  // No effect without BeginDraws. REQUIRES: no step under way draws for the slot.
  virtual void EndDraws(int32_t slot) {}

  // After DeviceLost: brings the device back, with the weights. May take long. Returns
  // the errors of loading, and UNAVAILABLE; it can then be called again. REQUIRES: no
  // arena and no state memory made before exists.
  virtual absl::Status Restart() { return absl::OkStatus(); }

  // Writes a carry of the sequence form (one view per entry of Model::carry_spec(),
  // batch of one: [n, row...] for growing entries, the entry's shape for fixed ones),
  // reached after `position` tokens, into a fresh slot. There is no export. Errors:
  // those of BeginImport, and NonFiniteState; the slot is then fresh.
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

// Checks of every decoder before it changes anything; the errors of Submit above.
// `draws`, `introspection`: as returned by Decoder.
absl::Status CheckSegments(std::span<const Segment> segments, int64_t vocab,
                           const StateArena& arena, bool draws = false,
                           const IntrospectionFields& introspection = {});

// The first row of a growing entry that a query at `position` may need.
int64_t FirstVisible(const StateEntry& entry, int64_t position);

// Start of Import for every decoder: checks the entries of the carry, their shapes and
// that the slot is fresh; reserves the rows that queries from `position` on can see.
// INVALID_ARGUMENT names the entry; RESOURCE_EXHAUSTED without room, the slot then
// stays fresh.
absl::Status BeginImport(int64_t position, const TensorViews& carry,
                         const StateSpec& carry_spec, StateArena& arena, int32_t slot);

// Keys that a position of an encoder sees.
enum class PredictMask {
  kConfig,  // as configured in the model
  kNone,    // all
  kCausal,  // up to its own
  kExplicit,
};

// Attention maps: the weight that each position (row) gives to each key (column); rows
// sum to 1.
enum class AttentionMaps {
  kNone,
  kUsed,  // the weights used for the logits
  // As computed by the attention notebook (get_attention_maps): from the input of each
  // block before its norm, with the same mask.
  kNotebook,
};

// Cost of one prediction, for limits on requests; INT64_MAX on overflow.
struct PredictCost {
  int64_t multiply_adds = 0;
  // Input, output and intermediate results. Scratch memory of the kernels is not
  // counted: the predictor has it once for all its predictions.
  int64_t peak_bytes = 0;
};

class Prediction;

// An encoder: whole sequences in one call, no state. Immutable after construction
// except for scratch memory. Used by one thread at a time, including its predictions.
class Predictor {
 public:
  struct Input {
    std::vector<int32_t> tokens;  // [B, T], row-major
    int64_t batch = 0;            // B
    PredictMask mask = PredictMask::kConfig;
    // With kExplicit, else empty: [T, T] or [B, T, T], row-major, one row per query;
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
  // See Decoder::numerics_id().
  virtual const std::string& numerics_id() const = 0;

  // See Decoder::weight_bytes().
  virtual int64_t weight_bytes() const = 0;

  // Longest sequence, T.
  virtual int64_t max_positions() const = 0;

  // REQUIRES: CheckPredict accepts the input.
  virtual PredictCost Cost(const Input& input) const = 0;

  // Allocates the memory of a prediction, without computing and without the thread
  // pool. The predictor must outlive the prediction; any number of them may be under
  // way. RESOURCE_EXHAUSTED (no memory), INTERNAL. REQUIRES: CheckPredict accepts the
  // input.
  virtual absl::StatusOr<std::unique_ptr<Prediction>> Begin(Input input) = 0;

  // Checks the input and runs a whole prediction. Errors of CheckPredict, Begin and
  // Advance.
  absl::StatusOr<Output> Predict(Input input);
};

// One prediction under way. A sequence's numbers depend only on the sequence and its
// mask: they are bit for bit the same in any batch and for any interleaving with other
// predictions. May be destroyed at any time.
class Prediction {
 public:
  virtual ~Prediction() = default;

  // Computes the next piece: at most kPieceMultiplyAdds, or one row of one attention
  // head if that takes more. Returns true when all is done. After an error
  // (RESOURCE_EXHAUSTED, INTERNAL) the prediction can only be destroyed.
  virtual absl::StatusOr<bool> Advance() = 0;

  // Multiply-adds done so far, of those that PredictMultiplyAdds counts.
  virtual int64_t multiply_adds() const = 0;

  // The result; can be taken once. REQUIRES: Advance has returned true.
  virtual Predictor::Output TakeOutput() = 0;
};

// Multiply-adds of a piece. Other arithmetic, rows and runs of the thread pool count as
// multiply-adds of equal time. No clock ends a piece: it takes at most 20 ms if the
// pool does 0.84 * 10^9 multiply-adds, or reads 3.4 GB of weights, in a second; one
// core with AVX2 takes 0.5 to 2 ms.
inline constexpr int64_t kPieceMultiplyAdds = int64_t{16} << 20;

// Multiply-adds of a prediction [B, T]; INT64_MAX on overflow.
int64_t PredictMultiplyAdds(const ModelDescription& model, int64_t batch, int64_t time,
                            AttentionMaps maps);

// Checks that a predictor can compute the input. INVALID_ARGUMENT names the field
// (tokens, explicit_mask); FAILED_PRECONDITION (T beyond max_positions).
absl::Status CheckPredict(const Predictor::Input& input, int64_t vocab,
                          int64_t max_positions);

}  // namespace mnemon
