// SPDX-License-Identifier: MIT
// Transformer-XL, "Attentive Language Models Beyond a Fixed-Length Context" (Dai, Yang,
// Yang, Carbonell, Le, Salakhutdinov, 2019), sections 3.2 (memory) and 3.3 (relative
// positions), with learned tables R and S in place of projected sinusoids:
//   s(i,j) = c ((q_i + u).k_j + q_i.R[P-d] + S[P-d]),  d = distance of key j from query
//   i
//
// One call of Forward is one segment. The memory of a layer is the last M of its
// inputs, not normalised and outside the graph; gradients reach the projections through
// it.
#include "model/arch/transformer_xl.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/relative_positions.h"
#include "model/sequence/model.h"
#include "model/steps/transformer_xl_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  Affine norm;                 // [D]
  Affine query, key;           // [D, D], no bias
  Affine value;                // [D, D]
  RelativePositions relative;  // 2P rows
  Affine output;               // [D, D]
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
    layer.query = MakeLinear(c.d_model, c.d_model, HasBias::kNo);
    layer.key = MakeLinear(c.d_model, c.d_model, HasBias::kNo);
    layer.value = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    layer.relative = MakeRelativePositions(2 * c.positions, c.heads, c.head_width());
    layer.output = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    layer.feed_forward = MakeFeedForward(c);
  }
  return weights;
}

class TransformerXl final : public Model {
 public:
  explicit TransformerXl(const ModelConfig& config)
      : config_(config),
        spec_(TransformerXlCarry(config)),
        weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return spec_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckForward(config_, spec_, tokens, carry, options));
    const int64_t time = tokens.size(1);
    const int64_t keys = std::min(carry.position, config_.mem_len) + time;
    if (config_.window == Window::kSegment && keys - 1 > config_.positions) {
      return MakeError(absl::StatusCode::kFailedPrecondition,
                       StrCat("a segment of ", time, " tokens after ", keys - time,
                              " in memory reaches back ", keys - 1,
                              " positions; the model has ", config_.positions),
                       {.reason = "CONTEXT_LIMIT"});
    }
    const Dropout dropout(config_.dropout, options.dropout, tokens.size(0));
    at::Tensor x = Embed(tokens, weights_.frame);  // [B, T, D]
    const at::Tensor mask = CausalMask(time, keys, Reach(), x.options());
    Carry next{.position = carry.position + time, .tensors = {}};
    std::vector<at::Tensor> maps;
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      const Layer& layer = weights_.layers[i];
      const Dropout drop = dropout.At(static_cast<int64_t>(i));
      const at::Tensor source =
          keys == time ? x : at::cat({carry.tensors[i].detach(), x}, 1);
      if (config_.mem_len > 0) next.tensors.push_back(LastInputs(source.detach()));
      const Attended attended = Attention(source, time, layer, mask, drop);
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
      VisitRelativePositions(visit, i, layer.relative);
      VisitAffine(visit, name(names::kOutput), layer.output);
      VisitFeedForward(visit, i, layer.feed_forward);
    }
    VisitHead(visit, weights_.frame);
  }

 private:
  // How many keys before itself a query sees.
  int64_t Reach() const {
    return config_.window == Window::kSliding ? config_.mem_len
                                              : std::numeric_limits<int64_t>::max();
  }

  // source [B, n, D] -> its last M rows.
  at::Tensor LastInputs(const at::Tensor& source) const {
    const int64_t kept = std::min(source.size(1), config_.mem_len);
    return source.narrow(1, source.size(1) - kept, kept).contiguous();
  }

  // source [B, J, D], memory before the segment's own T inputs.
  Attended Attention(const at::Tensor& source, int64_t time, const Layer& layer,
                     const at::Tensor& mask, const Dropout& drop) const {
    const int64_t keys = source.size(1);
    const at::Tensor z = LayerNorm(source, layer.norm);
    const at::Tensor q =
        SplitHeads(Linear(z.narrow(1, keys - time, time), layer.query), config_.heads);
    const at::Tensor k = SplitHeads(Linear(z, layer.key), config_.heads);
    const at::Tensor v = SplitHeads(Linear(z, layer.value), config_.heads);

    const RelativeReach reach{.zero_row = config_.positions,
                              .farthest = std::min(keys - 1, Reach())};
    const auto [query, bias] =
        AddRelativePositions(q, layer.relative, reach, keys, mask);
    return Attend(query, k, v, bias, drop);
  }

  const ModelConfig config_;
  const StateSpec spec_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> MakeTransformerXl(const ModelConfig& config) {
  return std::make_unique<TransformerXl>(config);
}

}  // namespace mnemon
