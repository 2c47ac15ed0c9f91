// SPDX-License-Identifier: MIT
// Plain causal transformer, "Attention Is All You Need" (Vaswani et al., 2017),
// equation 1 and section 3.5, with norms before the sub-layers. Biases on all four
// projections. Positions are sinusoidal, learned, linear biases ("Train Short, Test
// Long", Press, Smith, Lewis, 2021) or relative tables as in Transformer-XL, with a row
// for every distance of the context.
#include "model/arch/causal.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/status_macros.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/positions.h"
#include "model/layers/relative_positions.h"
#include "model/sequence/model.h"
#include "model/steps/causal_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  Affine norm;                       // [D]
  Affine query, key, value, output;  // [D, D]
  RelativePositions relative;        // P rows; undefined unless relative
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
    for (Affine* map : {&layer.query, &layer.key, &layer.value, &layer.output}) {
      *map = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    }
    if (c.position_kind == PositionKind::kRelative) {
      layer.relative = MakeRelativePositions(c.positions, c.heads, c.head_width());
    }
    layer.feed_forward = MakeFeedForward(c);
  }
  return weights;
}

class Causal final : public Model {
 public:
  explicit Causal(const ModelConfig& config)
      : config_(config), spec_(CausalCarry(config)), weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return spec_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckForward(config_, spec_, tokens, carry, options));
    const int64_t batch = tokens.size(0), time = tokens.size(1);
    const int64_t total = carry.position + time;
    const Dropout dropout(config_.dropout, options.dropout, batch);
    at::Tensor x = EmbedAt(tokens, weights_.frame, config_, carry.position);
    const at::Tensor mask =
        CausalMask(time, total, std::numeric_limits<int64_t>::max(), x.options());
    const at::Tensor bias =
        config_.position_kind == PositionKind::kAlibi
            ? MaskedAlibiBias(config_.heads, batch, time, total, mask, x.options())
            : mask;
    Carry next{.position = total, .tensors = {}};
    std::vector<at::Tensor> maps;
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      const Layer& layer = weights_.layers[i];
      const Dropout drop = dropout.At(static_cast<int64_t>(i));
      const at::Tensor z = LayerNorm(x, layer.norm);
      // Rows so far, [B, n, D].
      const auto rows = [&](const Affine& map) {
        // The carry keeps the type of the weights, autocast or not.
        at::Tensor all = Linear(z, map).to(z.scalar_type());
        if (!carry.fresh()) {
          all = at::cat({carry.tensors[next.tensors.size()].flatten(2), all}, 1);
        }
        next.tensors.push_back(
            all.view({batch, total, config_.heads, config_.head_width()}));
        return SplitHeads(all, config_.heads);
      };
      RelativeQuery query{.q = SplitHeads(Linear(z, layer.query), config_.heads),
                          .bias = bias};
      if (config_.position_kind == PositionKind::kRelative) {
        const RelativeReach reach{.zero_row = config_.positions - 1,
                                  .farthest = total - 1};
        query = AddRelativePositions(query.q, layer.relative, reach, total, mask);
      }
      const at::Tensor k = rows(layer.key);
      const at::Tensor v = rows(layer.value);
      const Attended attended = Attend(query.q, k, v, query.bias, drop);
      if (options.maps == AttentionMaps::kUsed) {
        maps.push_back(MapsOfBatch(attended.weights, config_.heads));
      }
      x = x + drop(Linear(MergeHeads(attended.mixed, config_.heads), layer.output),
                   DropoutKind::kAttentionOutput);
      x = AddFeedForward(x, layer.feed_forward, drop);
    }
    return ForwardResult{.logits = Logits(x, weights_.frame),
                         .carry = std::move(next),
                         .maps = std::move(maps)};
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
      VisitRelativePositions(visit, static_cast<int64_t>(i), layer.relative);
      VisitAffine(visit, name(names::kOutput), layer.output);
      VisitFeedForward(visit, i, layer.feed_forward);
    }
    VisitHead(visit, weights_.frame);
  }

 private:
  const ModelConfig config_;
  const StateSpec spec_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> MakeCausal(const ModelConfig& config) {
  return std::make_unique<Causal>(config);
}

}  // namespace mnemon
