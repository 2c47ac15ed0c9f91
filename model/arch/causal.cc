// SPDX-License-Identifier: MIT
// Plain causal transformer, "Attention Is All You Need" (Vaswani et al., 2017),
// equation 1 and section 3.5, with norms before the sub-layers. Biases on all four
// projections.
#include "model/arch/causal.h"

#include <cmath>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "model/arch/field_check.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/positions.h"
#include "model/model.h"
#include "model/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  Affine norm;                       // [D]
  Affine query, key, value, output;  // [D, D]
  FeedForward feed_forward;
};

struct Weights {
  Frame frame;
  at::Tensor positions;  // [P, D]; undefined unless learned
  std::vector<Layer> layers;
};

Weights MakeWeights(const ModelConfig& c) {
  Weights weights{
      .frame = MakeFrame(c), .positions = {}, .layers = std::vector<Layer>(c.layers)};
  if (c.position_kind == PositionKind::kLearned) {
    weights.positions = at::empty({c.positions, c.d_model});
  }
  for (Layer& layer : weights.layers) {
    layer.norm = MakeNorm(c.d_model);
    for (Affine* map : {&layer.query, &layer.key, &layer.value, &layer.output}) {
      *map = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    }
    layer.feed_forward = MakeFeedForward(c.d_model, c.d_ff);
  }
  return weights;
}

StateSpec MakeSpec(const ModelConfig& c) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    for (const char* part : {".key", ".value"}) {
      spec.entries.push_back({.name = "layer" + std::to_string(i) + part,
                              .shape = {c.heads, c.head_width()},
                              .growth = Growth::kAppend,
                              .capacity = c.positions});
    }
  }
  return spec;
}

class Causal final : public Model {
 public:
  explicit Causal(const ModelConfig& config)
      : config_(config), spec_(MakeSpec(config)), weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return spec_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckForward(config_, spec_, tokens, carry));
    const int64_t batch = tokens.size(0), time = tokens.size(1);
    const int64_t total = carry.position + time;
    const Dropout drop(config_.dropout, options.dropout);
    at::Tensor x = AddPositions(Embed(tokens, weights_.frame), carry.position);
    const at::Tensor bias = AttentionBias(batch, time, total, x.options());
    Carry next{.position = total, .tensors = {}};
    for (const Layer& layer : weights_.layers) {
      const at::Tensor z = LayerNorm(x, layer.norm);
      // Rows so far, [B, n, D].
      const auto rows = [&](const Affine& map) {
        at::Tensor all = Linear(z, map);
        if (!carry.fresh()) {
          all = at::cat({carry.tensors[next.tensors.size()].flatten(2), all}, 1);
        }
        next.tensors.push_back(
            all.view({batch, total, config_.heads, config_.head_width()}));
        return SplitHeads(all, config_.heads);
      };
      const at::Tensor q = SplitHeads(Linear(z, layer.query), config_.heads);
      const at::Tensor k = rows(layer.key);
      const at::Tensor v = rows(layer.value);
      x = x + drop(Linear(MergeHeads(Attend(q, k, v, bias, drop), config_.heads),
                          layer.output));
      x = AddFeedForward(x, layer.feed_forward, drop);
    }
    return ForwardResult{.logits = Logits(x, weights_.frame), .carry = std::move(next)};
  }

  void Visit(const TensorVisitor& visit) override {
    VisitEmbedding(visit, weights_.frame);
    VisitTensor(visit, names::Weight(names::kPositions), weights_.positions);
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      Layer& layer = weights_.layers[i];
      const auto name = [i](const char* part) { return names::Layer(i, part); };
      VisitAffine(visit, name(names::kAttnNorm), layer.norm);
      VisitAffine(visit, name(names::kQuery), layer.query);
      VisitAffine(visit, name(names::kKey), layer.key);
      VisitAffine(visit, name(names::kValue), layer.value);
      VisitAffine(visit, name(names::kOutput), layer.output);
      VisitFeedForward(visit, i, layer.feed_forward);
    }
    VisitHead(visit, weights_.frame);
  }

 private:
  // x [B, T, D] at positions first .. first+T-1.
  at::Tensor AddPositions(at::Tensor x, int64_t first) const {
    if (config_.embed_scale) x = x * std::sqrt(static_cast<double>(config_.d_model));
    const int64_t time = x.size(1);
    switch (config_.position_kind) {
      case PositionKind::kSinusoidal:
        return x + Sinusoid(first, time, config_.d_model, x.options());
      case PositionKind::kLearned:
        return x + weights_.positions.narrow(0, first, time);
      default:
        return x;
    }
  }

  // [T, J], or [H*B, T, J] with ALiBi; undefined when nothing is to be added.
  at::Tensor AttentionBias(int64_t batch, int64_t queries, int64_t keys,
                           const at::TensorOptions& options) const {
    const at::Tensor mask =
        CausalMask(queries, keys, std::numeric_limits<int64_t>::max(), options);
    if (config_.position_kind != PositionKind::kAlibi) return mask;
    const int64_t heads = config_.heads;
    at::Tensor bias = AlibiBias(heads, queries, keys, options);
    if (mask.defined()) bias = bias + mask;
    return bias.unsqueeze(1)
        .expand({heads, batch, queries, keys})
        .reshape({heads * batch, queries, keys});
  }

  const ModelConfig config_;
  const StateSpec spec_;
  Weights weights_;
};

}  // namespace

absl::Status ValidateCausal(const ModelConfig& config) {
  FieldCheck check(config, {"positions", "position_kind", "embed_scale"});
  check.Require(config.position_kind == PositionKind::kNone ||
                    config.position_kind == PositionKind::kSinusoidal ||
                    config.position_kind == PositionKind::kLearned ||
                    config.position_kind == PositionKind::kAlibi,
                "position_kind", "none, sinusoidal, learned or alibi");
  return check.status();
}

std::unique_ptr<Model> MakeCausal(const ModelConfig& config) {
  return std::make_unique<Causal>(config);
}

std::vector<ModelConfig> CausalVariants() {
  const auto variant = [](PositionKind kind, int64_t heads, bool embed_scale) {
    return ModelConfig{.architecture = "causal",
                       .d_model = 4 * heads,
                       .heads = heads,
                       .layers = 2,
                       .d_ff = 12,
                       .vocab = 7,
                       .positions = 13,
                       .position_kind = kind,
                       .embed_scale = embed_scale,
                       .dropout = 0.2};
  };
  return {variant(PositionKind::kSinusoidal, 2, true),
          variant(PositionKind::kLearned, 2, false),
          variant(PositionKind::kNone, 2, false),
          variant(PositionKind::kAlibi, 3, false)};
}

}  // namespace mnemon
