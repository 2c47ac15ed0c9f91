// SPDX-License-Identifier: MIT
// The sequence form of a model: differentiable, used by the trainer and as the
// reference that the step form is compared with. ATen tensors, batch first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/kernels/dropout_mask.h"
#include "model/state/state.h"
#include "model/weights/weights.h"

namespace mnemon {

// What a sequence leaves behind for its continuation: one tensor per entry of
// Model::carry_spec(), [B, n, row...] for growing entries (oldest first, n <=
// capacity), [B, shape...] for fixed ones. Part of the autograd graph until detached,
// but for Transformer-XL's memory, which the model detaches itself. A fresh carry has
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
  // Per layer [B, H, T, J], over J keys, the last T of which are the call's own tokens;
  // empty unless asked for. J = T in an encoder. What a position does not see is zero:
  // in feedback itself, too, so that the first token of a sequence has a row of zeros.
  std::vector<at::Tensor> maps = {};
};

struct ForwardOptions {
  // What decides on dropout masks. Set = training mode: dropout is applied where the
  // documents have it. Unset = evaluation mode.
  std::optional<DropoutKey> dropout = {};

  // For encoders alone; INVALID_ARGUMENT elsewhere.
  // In place of config().mask: [T, T], [B, T, T] or [B, H, T, T], boolean or integer
  // (non-zero = takes part) or floating (added to the scaled scores); on any device.
  at::Tensor mask = {};
  // kUsed: not of fast_weights, which attends to no keys; kNotebook: of encoders alone.
  AttentionMaps maps = AttentionMaps::kNone;
};

// Called once per tensor, in the order of the checkpoint, with its name (see
// model/weights/tensor_names.h). The visitor may replace the tensor by one of the same
// shape.
using TensorVisitor = std::function<void(const std::string& name, at::Tensor& tensor)>;

// Two kinds: an autoregressive model, whose logits depend on the tokens up to each
// position, so that a carry continues them; and an encoder, which takes whole sequences
// and no carry. The registry lists which a model is. Safe for concurrent Forward calls
// while no weight is changed.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ModelConfig& config() const = 0;
  // The carry as entries; also the state of the default decoder. Encoder: empty.
  virtual const StateSpec& carry_spec() const = 0;

  // Logits of tokens [B, T] (int64, on the CPU, where they are checked) that follow
  // `carry`, and the carry after them, both on the weights' device. For transformer_xl
  // the call is one segment; an encoder takes a fresh carry only and returns one.
  // Under autocast the carry, and what is carried from token to token on the way to it,
  // still has the type of the weights, as have norms and softmax; logits may have
  // autocast's.
  // INVALID_ARGUMENT: not [B, T] with T >= 1, token out of range, carry of another
  // batch, options that do not apply. FAILED_PRECONDITION: beyond the positions of the
  // model.
  virtual absl::StatusOr<ForwardResult> Forward(
      const at::Tensor& tokens, const Carry& carry,
      const ForwardOptions& options = {}) const = 0;

  // The one list of weights: initialisation, optimiser, checkpoint and shape checks
  // follow from it.
  virtual void Visit(const TensorVisitor& visit) = 0;
};

// Checks that hold for every autoregressive model; the errors of Forward above.
absl::Status CheckForward(const ModelConfig& config, const StateSpec& carry_spec,
                          const at::Tensor& tokens, const Carry& carry,
                          const ForwardOptions& options);
// Those of an encoder, whose sequences have at most config.positions tokens; the mask
// is checked where it is used.
absl::Status CheckEncode(const ModelConfig& config, const at::Tensor& tokens,
                         const Carry& carry);

int64_t CountParameters(Model& model);

// Views of float32, contiguous, CPU weights. Valid while the model lives and its
// weights are not replaced.
TensorViews ViewWeights(Model& model);
// Views of a carry with a batch of one. Valid while `carry` lives; its tensors must be
// float32, contiguous and on the CPU.
TensorViews ViewCarry(const StateSpec& carry_spec, const Carry& carry);

// Moves all weights to another floating type (gradient checks use double), gradients
// off.
void CastWeights(Model& model, at::ScalarType type);

// Turns gradients of all weights on (training) or off (serving).
void RequireGradients(Model& model, bool on);

enum class Initialisation {
  kSane,  // every layer drawn on its own; embedding N(0, 1) after its scale, no biases
  // As the reference: PyTorch defaults, all layers equal copies (encoder: drawn each).
  kReference,
};

// Draws all weights from `seed`. Deterministic.
void InitialiseWeights(Model& model, Initialisation kind, uint64_t seed);

}  // namespace mnemon
