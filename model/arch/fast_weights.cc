// SPDX-License-Identifier: MIT
// Fast Weights Transformer, "Linear Transformers Are Secretly Fast Weight Programmers"
// (Schlag, Irie, Schmidhuber, 2021): section 3.2 (sum rule and normaliser z),
// section 4.2 (delta rule), section 5.3 (the features DPFP). The equations stand in
// model/layers/delta_rule.h.
//
// Attention reads the raw residual stream: its norm is in the files and never applied.
// No positions, no dropout on the fast weights.
#include "model/arch/fast_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "model/layers/attention.h"
#include "model/layers/delta_rule.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/sequence/model.h"
#include "model/steps/fast_weights_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  Affine norm;               // [D], never applied
  Affine query, key, value;  // [D, D], no bias
  Affine gate;               // [H, D], no bias; empty with the sum rule
  Affine output;             // [D, D]
  FeedForward feed_forward;
};

struct Weights {
  Frame frame;
  std::vector<Layer> layers;
};

Weights MakeWeights(const ModelConfig& c) {
  Weights weights{.frame = MakeFrame(c), .layers = std::vector<Layer>(c.layers)};
  for (Layer& layer : weights.layers) {
    layer.norm = MakeNorm(c.d_model);
    for (Affine* map : {&layer.query, &layer.key, &layer.value}) {
      *map = MakeLinear(c.d_model, c.d_model, HasBias::kNo);
    }
    if (c.update_rule == UpdateRule::kDelta) {
      layer.gate = MakeLinear(c.heads, c.d_model, HasBias::kNo);
    }
    layer.output = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    layer.feed_forward = MakeFeedForward(c);
  }
  return weights;
}

// Per layer W [H, K, N] and, where normalised, z [H, N].
class FastWeights final : public Model {
 public:
  explicit FastWeights(const ModelConfig& config)
      : config_(config),
        spec_(FastWeightsCarry(config)),
        weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return spec_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckForward(config_, spec_, tokens, carry, options));
    if (options.maps != AttentionMaps::kNone) {
      return InvalidField("maps", "fast weights attend to no keys: there are no maps");
    }
    const Dropout dropout(config_.dropout, options.dropout, tokens.size(0));
    Carry next{.position = carry.position + tokens.size(1), .tensors = {}};
    at::Tensor x = Embed(tokens, weights_.frame);  // [B, T, D]
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      const Layer& layer = weights_.layers[i];
      const Dropout drop = dropout.At(static_cast<int64_t>(i));
      FastWeightState state = EntryState(carry, next.tensors.size(), x);
      x = x + drop(Attention(x, layer, state), DropoutKind::kAttentionOutput);
      x = AddFeedForward(x, layer.feed_forward, drop);
      next.tensors.push_back(BatchFirst(state.w));
      if (state.z.defined()) next.tensors.push_back(BatchFirst(state.z));
    }
    return ForwardResult{.logits = Logits(x, weights_.frame), .carry = std::move(next)};
  }

  void Visit(const TensorVisitor& visit) override {
    VisitEmbedding(visit, weights_.frame);
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      Layer& layer = weights_.layers[i];
      const auto name = [i](const char* part) { return names::Layer(i, part); };
      VisitAffine(visit, name(names::kAttnNorm), layer.norm);
      VisitAffine(visit, name(names::kQuery), layer.query);
      VisitAffine(visit, name(names::kKey), layer.key);
      VisitAffine(visit, name(names::kValue), layer.value);
      VisitAffine(visit, name(names::kGate), layer.gate);
      VisitAffine(visit, name(names::kOutput), layer.output);
      VisitFeedForward(visit, i, layer.feed_forward);
    }
    VisitHead(visit, weights_.frame);
  }

 private:
  // [.., K] -> [.., N].
  at::Tensor Features(const at::Tensor& x) const {
    return config_.feature_map == FeatureMapKind::kElu ? EluFeatures(x)
                                                       : Dpfp(x, config_.nu);
  }

  // x [B, T, D] -> [B, T, D]; `state` becomes the one after x.
  at::Tensor Attention(const at::Tensor& x, const Layer& layer,
                       FastWeightState& state) const {
    // [H*B, T, K], in the type of the state, autocast or not.
    const auto heads = [&](const Affine& map) {
      return SplitHeads(Linear(x, map), config_.heads).to(x.scalar_type());
    };
    const FastWeightInput input{.q = Features(heads(layer.query)),
                                .k = Features(heads(layer.key)),
                                .v = heads(layer.value),
                                .beta = layer.gate.weight.defined()
                                            ? at::sigmoid(heads(layer.gate))
                                            : at::Tensor()};
    return Linear(MergeHeads(RunFastWeights(input, state), config_.heads),
                  layer.output);
  }

  // The state of the layer whose entries start at `first`, as rows [H*B, ...].
  FastWeightState EntryState(const Carry& carry, size_t first,
                             const at::Tensor& x) const {
    const auto entry = [&](size_t i) {
      std::vector<int64_t> shape = spec_.entries[i].shape;  // [H, ...]
      const at::Tensor start = carry.fresh() ? at::Tensor() : carry.tensors[i];
      shape[0] *= x.size(0);
      return start.defined() ? start.transpose(0, 1).reshape(shape)
                             : at::full(shape, spec_.entries[i].fill, x.options());
    };
    const bool normalised = config_.normalise == Normalise::kZ;
    return {.w = entry(first), .z = normalised ? entry(first + 1) : at::Tensor()};
  }

  // [H*B, ...] -> [B, H, ...].
  at::Tensor BatchFirst(const at::Tensor& rows) const {
    return rows.unflatten(0, {config_.heads, -1}).transpose(0, 1).contiguous();
  }

  const ModelConfig config_;
  const StateSpec spec_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> MakeFastWeights(const ModelConfig& config) {
  return std::make_unique<FastWeights>(config);
}

}  // namespace mnemon
