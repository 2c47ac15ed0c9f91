// SPDX-License-Identifier: MIT
// Feedback Transformer, "Addressing Some Limitations of Transformers with Feedback
// Memory" (Fan, Lavril, Grave, Joulin, Sukhbaatar, 2020), section 3:
//   z_t^l = Attn(x_t^l, [m_0 .. m_{t-1}]),  m_t = sum_{l=0..L} softmax(w)_l x_t^l
// with keys and values of its own in every layer (projection: per_layer), or one pair
// for all (shared). Relative positions as in Transformer-XL, with a free table S, or
// with S = u.R (position_bias: tied).
//
// Strictly token by token. At position t the t memories before it are visible, with
// mem_len the last mem_len of them; distance n (1 = the newest) uses row P-n of the
// tables. At t = 0 the attention sub-layer is
// left out. A memory is projected to keys and values once, when it is made.
#include "model/arch/feedback.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "base/status_macros.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/growing_rows.h"
#include "model/layers/step_linear.h"
#include "model/sequence/model.h"
#include "model/steps/feedback_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct KeyValue {
  Affine key;    // [D, D], no bias
  Affine value;  // [D, D]; a bias when per layer
};

struct Layer {
  Affine norm;               // [D]
  Affine query;              // [D, D], no bias
  KeyValue memory;           // empty when shared
  at::Tensor relative_key;   // R [P, H, K]
  at::Tensor relative_bias;  // S [P, H]; undefined when tied
  at::Tensor query_bias;     // u [H, K]
  Affine output;             // [D, D]
  FeedForward feed_forward;
};

struct Weights {
  Frame frame;
  at::Tensor mix;   // [L+1], before the softmax
  KeyValue memory;  // empty when per layer
  std::vector<Layer> layers;
};

// Keys and values of all memories so far, [H*B, n, K] each, and the maps for new ones.
struct Memories {
  GrowingRows keys;
  GrowingRows values;
  StepLinear key;
  StepLinear value;
};

// The linear maps of one layer as the loop over tokens applies them.
struct LayerSteps {
  StepLinear query, output;
  StepLinear feed_forward_in, feed_forward_out;
};

// Position terms of one layer for one call, scaled by c = 1/sqrt(K); the last row is
// distance 1.
struct Positions {
  at::Tensor relative_key;   // R^T [H, K, n]
  at::Tensor relative_bias;  // c S^T [H, 1, n]
  at::Tensor query_bias;     // c u [H, 1, K]
};

struct Unrolled {
  at::Tensor outputs;  // of the last layer, [B, T, D]
  at::Tensor memory;   // the carry's and that of the call, [B, n, D]
  std::vector<at::Tensor> maps;
};

KeyValue MakeKeyValue(int64_t width, HasBias value_bias) {
  return {.key = MakeLinear(width, width, HasBias::kNo),
          .value = MakeLinear(width, width, value_bias)};
}

Weights MakeWeights(const ModelConfig& c) {
  const bool shared = c.projection == Projection::kShared;
  Weights weights{.frame = MakeFrame(c),
                  .mix = at::empty({c.layers + 1}),
                  .memory = {},
                  .layers = std::vector<Layer>(c.layers)};
  if (shared) weights.memory = MakeKeyValue(c.d_model, HasBias::kNo);
  for (Layer& layer : weights.layers) {
    layer.norm = MakeNorm(c.d_model);
    layer.query = MakeLinear(c.d_model, c.d_model, HasBias::kNo);
    if (!shared) layer.memory = MakeKeyValue(c.d_model, HasBias::kYes);
    layer.relative_key = at::empty({c.positions, c.heads, c.head_width()});
    if (c.position_bias == PositionBias::kFree) {
      layer.relative_bias = at::empty({c.positions, c.heads});
    }
    layer.query_bias = at::empty({c.heads, c.head_width()});
    layer.output = MakeLinear(c.d_model, c.d_model, HasBias::kYes);
    layer.feed_forward = MakeFeedForward(c);
  }
  return weights;
}

class Feedback final : public Model {
 public:
  explicit Feedback(const ModelConfig& config)
      : config_(config), spec_(FeedbackCarry(config)), weights_(MakeWeights(config)) {}

  const ModelConfig& config() const override { return config_; }
  const StateSpec& carry_spec() const override { return spec_; }

  absl::StatusOr<ForwardResult> Forward(const at::Tensor& tokens, const Carry& carry,
                                        const ForwardOptions& options) const override {
    MNEMON_RETURN_IF_ERROR(CheckForward(config_, spec_, tokens, carry, options));
    const Dropout dropout(config_.dropout, options.dropout, tokens.size(0));
    Unrolled unrolled =
        Unroll(tokens, carry, dropout, options.maps == AttentionMaps::kUsed);
    return ForwardResult{.logits = Logits(unrolled.outputs, weights_.frame),
                         .carry = {.position = carry.position + tokens.size(1),
                                   .tensors = {std::move(unrolled.memory)}},
                         .maps = std::move(unrolled.maps)};
  }

  void Visit(const TensorVisitor& visit) override {
    VisitEmbedding(visit, weights_.frame);
    VisitTensor(visit, names::kMemoryMix, weights_.mix);
    VisitAffine(visit, names::kMemoryKey, weights_.memory.key);
    VisitAffine(visit, names::kMemoryValue, weights_.memory.value);
    for (size_t i = 0; i < weights_.layers.size(); ++i) {
      Layer& layer = weights_.layers[i];
      const auto name = [i](const char* part) { return names::Layer(i, part); };
      VisitAffine(visit, name(names::kAttnNorm), layer.norm);
      VisitAffine(visit, name(names::kQuery), layer.query);
      VisitAffine(visit, name(names::kKey), layer.memory.key);
      VisitAffine(visit, name(names::kValue), layer.memory.value);
      VisitTensor(visit, name(names::kRelativeKey), layer.relative_key);
      VisitTensor(visit, name(names::kRelativeBias), layer.relative_bias);
      VisitTensor(visit, name(names::kQueryBias), layer.query_bias);
      VisitAffine(visit, name(names::kOutput), layer.output);
      VisitFeedForward(visit, i, layer.feed_forward);
    }
    VisitHead(visit, weights_.frame);
  }

 private:
  bool shared() const { return config_.projection == Projection::kShared; }
  double scale() const { return 1.0 / std::sqrt(config_.head_width()); }

  // The recurrence, all in the type of the weights, autocast or not. A token has few
  // rows: autocast would add a conversion or two to each small product.
  Unrolled Unroll(const at::Tensor& tokens, const Carry& carry, const Dropout& dropout,
                  bool maps) const {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const int64_t batch = tokens.size(0), time = tokens.size(1);
    const int64_t carried = carry.fresh() ? 0 : carry.tensors[0].size(1);
    const int64_t total = carried + time;
    const at::Tensor mix = at::softmax(weights_.mix, 0).unsqueeze(0);  // [1, L+1]
    const std::vector<Positions> positions = MakePositions(Visible(total - 1));
    std::vector<Memories> memories = MakeMemories(carry, time, batch);
    std::vector<LayerSteps> steps =
        MakeSteps(time, carry.fresh() ? time - 1 : time, batch);

    std::vector<at::Tensor> made, outputs;
    std::vector<std::vector<at::Tensor>> looks(maps ? weights_.layers.size() : 0);
    for (const at::Tensor& embedded : Embed(tokens.t(), weights_.frame).unbind(0)) {
      at::Tensor x = embedded;  // [B, D]
      std::vector<at::Tensor> layer_outputs = {x};
      for (size_t l = 0; l < weights_.layers.size(); ++l) {
        const Layer& layer = weights_.layers[l];
        const Dropout drop =
            dropout.At(static_cast<int64_t>(l), static_cast<int64_t>(made.size()));
        const Memories& seen = memories[shared() ? 0 : l];
        if (!seen.keys.empty()) {
          const at::Tensor q = steps[l].query(LayerNorm(x, layer.norm));
          const Attended attended = Attention(q, positions[l], seen, drop);
          if (maps) looks[l].push_back(attended.weights);
          x = x + drop(steps[l].output(attended.mixed), DropoutKind::kAttentionOutput);
        } else if (maps) {
          looks[l].push_back(at::zeros({config_.heads * batch, 1, 0}, x.options()));
        }
        const at::Tensor hidden =
            at::relu(steps[l].feed_forward_in(LayerNorm(x, layer.feed_forward.norm)));
        x = x + drop(steps[l].feed_forward_out(drop(hidden, DropoutKind::kHidden)),
                     DropoutKind::kFeedForwardOutput);
        layer_outputs.push_back(x);
      }
      outputs.push_back(x);
      made.push_back(at::mm(mix, at::stack(layer_outputs).flatten(1)).view_as(x));
      // The last memory is for the next call, which projects it itself.
      if (static_cast<int64_t>(made.size()) < time) Append(made.back(), memories);
    }
    at::Tensor memory = at::stack(made, 1);  // [B, T, D]
    if (!carry.fresh()) memory = at::cat({carry.tensors[0], memory}, 1);
    const int64_t kept = Visible(total);
    return {.outputs = at::stack(outputs, 1),
            .memory = memory.narrow(1, total - kept, kept),
            .maps = MakeMaps(looks, carried, total)};
  }

  // Per layer, from the weights [H*B, 1, n] of each token: [B, H, T, total], the
  // carried memories first.
  std::vector<at::Tensor> MakeMaps(const std::vector<std::vector<at::Tensor>>& looks,
                                   int64_t carried, int64_t total) const {
    std::vector<at::Tensor> maps;
    for (const std::vector<at::Tensor>& layer : looks) {
      std::vector<at::Tensor> rows;
      for (const at::Tensor& look : layer) {
        const int64_t behind = carried + static_cast<int64_t>(rows.size());
        const int64_t before = behind - look.size(2);
        rows.push_back(at::constant_pad_nd(look, {before, total - behind}));
      }
      maps.push_back(MapsOfBatch(at::cat(rows, 1), config_.heads));
    }
    return maps;
  }

  // Of `count` memories.
  int64_t Visible(int64_t count) const {
    return config_.mem_len > 0 ? std::min(count, config_.mem_len) : count;
  }

  // For distances up to `farthest`.
  std::vector<Positions> MakePositions(int64_t farthest) const {
    std::vector<Positions> positions;
    for (const Layer& layer : weights_.layers) {
      const int64_t first = config_.positions - farthest;
      const at::Tensor key = layer.relative_key.narrow(0, first, farthest);
      const at::Tensor bias = layer.relative_bias.defined()
                                  ? layer.relative_bias.narrow(0, first, farthest)
                                  : (key * layer.query_bias).sum(-1);
      positions.push_back({.relative_key = key.permute({1, 2, 0}).contiguous(),
                           .relative_bias = bias.t().unsqueeze(1) * scale(),
                           .query_bias = layer.query_bias.unsqueeze(1) * scale()});
    }
    return positions;
  }

  // One, or one per layer; with what the carry brings, and room for those of `time`
  // tokens.
  std::vector<Memories> MakeMemories(const Carry& carry, int64_t time,
                                     int64_t batch) const {
    const int64_t total = (carry.fresh() ? 0 : carry.tensors[0].size(1)) + time;
    const int64_t steps = time - 1;
    std::vector<Memories> memories;
    for (size_t i = 0; i < (shared() ? 1 : weights_.layers.size()); ++i) {
      const KeyValue& map = shared() ? weights_.memory : weights_.layers[i].memory;
      memories.push_back({.keys = GrowingRows(total),
                          .values = GrowingRows(total),
                          .key = StepLinear(map.key, steps, batch),
                          .value = StepLinear(map.value, steps, batch)});
      if (carry.fresh()) continue;
      const at::Tensor& m = carry.tensors[0];  // [B, n, D]
      memories[i].keys.Append(SplitHeads(Linear(m, map.key), config_.heads));
      memories[i].values.Append(SplitHeads(Linear(m, map.value), config_.heads));
    }
    return memories;
  }

  std::vector<LayerSteps> MakeSteps(int64_t steps, int64_t attention_steps,
                                    int64_t batch) const {
    std::vector<LayerSteps> result;
    for (const Layer& layer : weights_.layers) {
      result.push_back(
          {.query = StepLinear(layer.query, attention_steps, batch),
           .output = StepLinear(layer.output, attention_steps, batch),
           .feed_forward_in = StepLinear(layer.feed_forward.in, steps, batch),
           .feed_forward_out = StepLinear(layer.feed_forward.out, steps, batch)});
    }
    return result;
  }

  // Projects one new memory m [B, D] of every sequence and appends the rows.
  void Append(const at::Tensor& m, std::vector<Memories>& memories) const {
    const auto row = [&](StepLinear& map) {
      return SplitHeads(map(m).unsqueeze(1), config_.heads);
    };
    for (Memories& seen : memories) {
      seen.keys.Append(row(seen.key));
      seen.values.Append(row(seen.value));
    }
  }

  // One query per sequence over the n memories that it sees: q [B, D] -> [B, D], heads
  // joined, and the weights [H*B, 1, n] before dropout.
  //   s_j = c ((q + u).k_j + q.R[P-(n-j)] + S[P-(n-j)]),  o = sum_j drop(softmax(s))_j
  //   v_j
  Attended Attention(const at::Tensor& q, const Positions& positions,
                     const Memories& seen, const Dropout& drop) const {
    const auto visible = [&](const at::Tensor& all) {
      const int64_t count = all.size(1);
      return all.narrow(1, count - Visible(count), Visible(count));
    };
    const at::Tensor keys = visible(seen.keys.rows());      // [H*B, n, K]
    const at::Tensor values = visible(seen.values.rows());  // [H*B, n, K]
    const int64_t rows = keys.size(0), n = keys.size(1), width = keys.size(2);
    const int64_t hidden = positions.relative_key.size(2) - n;
    const at::Tensor by_head =
        q.view({-1, config_.heads, width}).transpose(0, 1).contiguous();  // [H, B, K]
    const at::Tensor relative =
        at::baddbmm(positions.relative_bias.narrow(2, hidden, n), by_head,
                    positions.relative_key.narrow(2, hidden, n), 1, scale());
    const at::Tensor biased = at::add(positions.query_bias, by_head, scale());
    // Products and sums beat a batched matrix product here: with one query per batch
    // entry the latter is a loop of tiny calls.
    const at::Tensor scores =
        (keys * biased.view({rows, 1, width})).sum(-1) + relative.view({rows, n});
    const at::Tensor weights = at::softmax(scores, -1);
    const at::Tensor kept = drop(weights, DropoutKind::kAttention);
    const at::Tensor mixed = (values * kept.unsqueeze(-1)).sum(1);  // [H*B, K]
    return {
        .mixed =
            mixed.view({config_.heads, -1, width}).transpose(0, 1).reshape(q.sizes()),
        .weights = weights.unsqueeze(1)};
  }

  const ModelConfig config_;
  const StateSpec spec_;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Model> MakeFeedback(const ModelConfig& config) {
  return std::make_unique<Feedback>(config);
}

}  // namespace mnemon
