// SPDX-License-Identifier: MIT
// The sequence form of a model: differentiable, used by the trainer and as the
// reference for the step form. ATen tensors, batch first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/blocks/affine_torch.h"
#include "model/compute/dropout_mask.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"
#include "model/state/state.h"

namespace mnemon {

// State that a sequence hands to its continuation: one tensor per entry of
// Model::carry_spec(), [B, n, row...] for growing entries (oldest first, n <=
// capacity), [B, shape...] for fixed ones. Part of the autograd graph until detached,
// except for carried inputs, which the model detaches itself. A fresh carry has
// position 0 and no tensors.
struct Carry {
  int64_t position = 0;  // tokens seen so far: the absolute position of the next one
  std::vector<at::Tensor> tensors;

  bool fresh() const { return position == 0; }
  // The same values outside the graph.
  Carry Detached() const;
};

struct ForwardResult {
  at::Tensor logits;  // [B, T, V]
  Carry carry;
  // Per block of attention [B, H, T, J], over J keys, the last T of which are the
  // call's own tokens; empty unless asked for. J = T in an encoder. Zero for keys that
  // a position does not see, which with a memory includes itself, so that the first
  // token of a sequence has a row of zeros.
  std::vector<at::Tensor> maps = {};
};

struct ForwardOptions {
  // Determines dropout masks. Set: training mode, with dropout as specified by the
  // papers. Unset: evaluation mode.
  std::optional<DropoutKey> dropout = {};

  // For encoders alone; INVALID_ARGUMENT elsewhere.
  // In place of the model's mask: [T, T], [B, T, T] or [B, H, T, T], boolean or integer
  // (non-zero = takes part) or floating (added to the scaled scores); on any device.
  at::Tensor mask = {};
  // kUsed: for models that attend to keys; kNotebook: only for encoders.
  AttentionMaps maps = AttentionMaps::kNone;
};

// There are two kinds: autoregressive models, whose logits depend on the tokens up to
// each position, so that a carry continues them; and encoders, which take whole
// sequences and no carry (ModelDescription::whole_sequences). Safe for concurrent
// Forward calls while no weight changes.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelDescription& description() const = 0;
  // Entries of the carry, which are also the state of the default decoder. Encoder:
  // empty.
  virtual const StateSpec& carry_spec() const = 0;

  // Logits of tokens [B, T] (int64, on the CPU, where they are checked) that follow
  // `carry`, and the carry after them, both on the weights' device. With
  // whole_segments (Attention) the call is one segment; an encoder takes a fresh carry
  // only and returns one. Under autocast the carry, and what is carried from token to
  // token on the way to it, still has the type of the weights, as have norms and
  // softmax; logits may have autocast's. INVALID_ARGUMENT: not [B, T] with T >= 1,
  // token out of range, carry of another batch, options that do not apply.
  // FAILED_PRECONDITION: beyond the positions of the model.
  virtual absl::StatusOr<ForwardResult> Forward(
      const at::Tensor& tokens, const Carry& carry,
      const ForwardOptions& options = {}) const = 0;

  // All weights, in the order of TensorsOf.
  virtual void Visit(const TensorVisitor& visit) = 0;
};

// Checks that hold for every autoregressive model; the errors of Forward above.
absl::Status CheckForward(const ModelDescription& model, const StateSpec& carry_spec,
                          const at::Tensor& tokens, const Carry& carry,
                          const ForwardOptions& options);
// The same for an encoder; the mask is checked where it is used.
absl::Status CheckEncode(const ModelDescription& model, const at::Tensor& tokens,
                         const Carry& carry);

int64_t CountParameters(Model& model);

// Views of float32, contiguous, CPU weights. Valid while the model lives and its
// weights are not replaced.
TensorViews ViewWeights(Model& model);
// Views of a carry with a batch of one. Valid while `carry` lives; its tensors must be
// float32, contiguous and on the CPU.
TensorViews ViewCarry(const StateSpec& carry_spec, const Carry& carry);

// Converts all weights to another floating type (gradient checks use double); turns
// gradients off.
void CastWeights(Model& model, at::ScalarType type);

// Turns gradients of all weights on (training) or off (serving).
void RequireGradients(Model& model, bool on);

enum class Initialisation {
  kSane,  // every layer drawn on its own; embedding N(0, 1) after its scale, no biases
  // Like the reference: PyTorch defaults, all layers equal copies (encoder: each drawn
  // separately).
  kReference,
};

// Draws all weights from `seed`. Deterministic.
void InitialiseWeights(Model& model, Initialisation kind, uint64_t seed);

}  // namespace mnemon
