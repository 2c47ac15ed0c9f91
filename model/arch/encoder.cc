// SPDX-License-Identifier: MIT
// The encoder of "Attention Is All You Need" (Vaswani et al., 2017), sections 3.1 to
// 3.5, with norms before the sub-layers, and a head that classifies every position:
//   x = drop(E[token] + PE)
//   x += drop(MHA(LN1(x)));  x += drop(FFN(LN2(x)))
//   logits = LN_V(W_b drop(act(LN(W_a x + b_a))) + b_b)
// No biases in the attention, no norm on the stack; LN_V with norm_logits.
#include "model/arch/encoder.h"

#include <limits>

#include <ATen/TensorOperators.h>

#include "base/status_macros.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/multi_head.h"
#include "model/layers/positions.h"
#include "model/sequence/model.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  Affine norm;  // [D]
  MultiHead attention;
  FeedForward feed_forward;
};

struct Weights {
  Frame frame;  // its norm stands behind head_in
  std::vector<Layer> layers;
  Affine head_in;      // W_a [D, D]
  Affine logits_norm;  // [V]; undefined without norm_logits
};

Weights MakeWeights(const ModelConfig& c) {
  Weights weights{.frame = MakeFrame(c),
                  .layers = std::vector<Layer>(c.layers),
                  .head_in = MakeLinear(c.d_model, c.d_model, HasBias::kYes),
                  .logits_norm = {}};
  for (Layer& layer : weights.layers) {
    layer = {.norm = MakeNorm(c.d_model),
             .attention = MakeMultiHead(c.d_model, c.heads),
             .feed_forward = MakeFeedForward(c)};
  }
  if (c.norm_logits) weights.logits_norm = MakeNorm(c.vocab);
  return weights;
}

class Encoder final : public Model {
 public:
  explicit Encoder(const ModelConfig& config)
      : config_(config), weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return no_state_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckEncode(config_, tokens, carry));
    const Dropout dropout(config_.dropout, options.dropout, tokens.size(0));
    at::Tensor x =
        dropout(EmbedAt(tokens, weights_.frame, config_, 0), DropoutKind::kEmbedding);
    MNEMON_ASSIGN_OR_RETURN(const ScoreMask mask, MaskFor(x, options.mask));
    ForwardResult result;
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      const Layer& layer = weights_.layers[i];
      const Dropout drop = dropout.At(static_cast<int64_t>(i));
      const at::Tensor z = LayerNorm(x, layer.norm);
      const MultiHeadResult attended =
          AttendMultiHead(z, z, z, layer.attention, mask, drop);
      if (options.maps == AttentionMaps::kUsed) {
        result.maps.push_back(attended.weights);
      } else if (options.maps == AttentionMaps::kNotebook) {
        result.maps.push_back(MultiHeadWeights(x, x, layer.attention, mask));
      }
      x = x + drop(attended.output, DropoutKind::kAttentionOutput);
      x = AddFeedForward(x, layer.feed_forward, drop);
    }
    result.logits = Head(x, dropout);
    return result;
  }

  void Visit(const TensorVisitor& visit) override {
    VisitEmbedding(visit, weights_.frame);
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      Layer& layer = weights_.layers[i];
      const auto index = static_cast<int64_t>(i);
      VisitAffine(visit, names::Layer(index, names::kAttnNorm), layer.norm);
      VisitMultiHead(visit, index, layer.attention);
      VisitFeedForward(visit, index, layer.feed_forward);
    }
    VisitAffine(visit, names::kHeadIn, weights_.head_in);
    VisitHead(visit, weights_.frame);
    VisitAffine(visit, names::kLogitsNorm, weights_.logits_norm);
  }

 private:
  // For scores of x [B, T, D]; `given` is ForwardOptions::mask.
  absl::StatusOr<ScoreMask> MaskFor(const at::Tensor& x,
                                    const at::Tensor& given) const {
    const int64_t batch = x.size(0), time = x.size(1);
    ScoreMask mask;
    if (given.defined()) {
      MNEMON_ASSIGN_OR_RETURN(
          mask,
          MakeScoreMask(
              given.to(x.device()),
              {.batch = batch, .heads = config_.heads, .queries = time, .keys = time},
              x.scalar_type()));
    } else if (config_.mask == Mask::kCausal) {
      mask.bias =
          CausalMask(time, time, std::numeric_limits<int64_t>::max(), x.options());
    }
    if (config_.position_kind == PositionKind::kAlibi) {
      mask.bias =
          MaskedAlibiBias(config_.heads, batch, time, time, mask.bias, x.options());
    }
    return mask;
  }

  at::Tensor Head(const at::Tensor& x, const Dropout& dropout) const {
    const at::Tensor hidden =
        Activate(LayerNorm(Linear(x, weights_.head_in), weights_.frame.norm),
                 config_.activation);
    const at::Tensor logits =
        Linear(dropout(hidden, DropoutKind::kHead), weights_.frame.head);
    return config_.norm_logits ? LayerNorm(logits, weights_.logits_norm) : logits;
  }

  const ModelConfig config_;
  const StateSpec no_state_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> MakeEncoder(const ModelConfig& config) {
  return std::make_unique<Encoder>(config);
}

}  // namespace mnemon
