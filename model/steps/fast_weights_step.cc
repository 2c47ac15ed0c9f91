// SPDX-License-Identifier: MIT
// The step form of fast weights. The state per layer is W, transposed to [H, N, K] so
// that a feature's row is a vector, and z where the config has it. A prompt runs
// through the layers as a whole; the recurrence runs token by token inside the kernel.
#include "model/steps/fast_weights_step.h"

#include <algorithm>
#include <vector>

#include "model/kernels/row_buffer.h"
#include "model/steps/step_decoder.h"
#include "model/steps/step_weights.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  MatrixView query_key_value;  // [3 D, D]
  MatrixView gate;             // [H, D]; empty with the sum rule
  MatrixView output;
  StepFeedForward feed_forward;
};

int64_t Features(const ModelConfig& c) { return 2 * c.nu * c.head_width(); }

StateSpec MakeSpec(const ModelConfig& c) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    spec.entries.push_back(
        {.name = layer + ".wt", .shape = {c.heads, Features(c), c.head_width()}});
    if (c.normalise == Normalise::kZ) {
      spec.entries.push_back({.name = layer + ".z", .shape = {c.heads, Features(c)}});
    }
  }
  return spec;
}

// What no step changes.
struct FastWeightsModel {
  const ModelConfig config;
  const StepFrame frame;
  std::vector<Layer> layers;

  bool delta() const { return config.update_rule == UpdateRule::kDelta; }
};

FastWeightsModel MakeFastWeightsModel(const ModelConfig& c, StepWeights& weights) {
  FastWeightsModel model{.config = c, .frame = MakeStepFrame(c, weights), .layers = {}};
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto name = [i](const char* part) { return names::Layer(i, part); };
    Layer& layer = model.layers.emplace_back();
    layer.query_key_value =
        weights.Linear({name(names::kQuery), name(names::kKey), name(names::kValue)});
    if (model.delta()) layer.gate = weights.Linear({name(names::kGate)});
    layer.output = weights.Linear({name(names::kOutput)}, c.head_width());
    layer.feed_forward = MakeStepFeedForward(c, i, weights);
  }
  weights.Pack();
  return model;
}

class FastWeightsPass final : public StepPass {
 public:
  explicit FastWeightsPass(const FastWeightsModel& model) : model_(model) {}

  void MakeRoom(int64_t rows) override {
    if (rows <= room_) return;
    const ModelConfig& c = model_.config;
    x_.Resize(rows, c.d_model);
    projected_.Resize(rows, 3 * c.d_model);
    beta_.Resize(rows, c.heads);
    mixed_.Resize(rows, c.d_model);
    hidden_.Resize(rows, c.d_ff);
    // No more runs than rows.
    runs_.resize(rows * c.layers);
    room_ = rows;
  }

  void Prepare(const StepBatch& batch, StateArena& arena) override {
    batch_ = &batch;
    const size_t count = batch.runs.size();
    const bool normalised = model_.config.normalise == Normalise::kZ;
    const int per_layer = normalised ? 2 : 1;
    for (size_t l = 0; l < model_.layers.size(); ++l) {
      for (size_t i = 0; i < count; ++i) {
        const StepBatch::Run& run = batch.runs[i];
        const int entry = static_cast<int>(l) * per_layer;
        runs_[l * count + i] = {
            .first = run.first,
            .count = run.count,
            .state = arena.Fixed(run.slot, entry),
            .normaliser = normalised ? arena.Fixed(run.slot, entry + 1) : nullptr};
      }
    }
  }

  void Forward(CpuWorker& k, float* logits) override {
    const ModelConfig& c = model_.config;
    const int64_t rows = batch_->rows(), width = c.d_model;
    const auto count = static_cast<int64_t>(batch_->runs.size());
    const Rows x = x_.rows(), hidden = hidden_.rows(), mixed = mixed_.rows();
    const Rows projected = projected_.rows(), beta = beta_.rows();
    EmbedTokens(k, model_.frame, rows, batch_->ids.data(), /*positions=*/nullptr, x);
    k.Sync();
    for (size_t l = 0; l < model_.layers.size(); ++l) {
      const Layer& layer = model_.layers[l];
      k.Linear(
          {.rows = rows, .in = x, .weights = layer.query_key_value, .out = projected});
      if (model_.delta()) {
        k.Linear({.rows = rows,
                  .in = x,
                  .weights = layer.gate,
                  .act = Act::kSigmoid,
                  .out = beta});
      }
      k.Sync();
      k.FastWeights({.heads = c.heads,
                     .width = c.head_width(),
                     .nu = c.nu,
                     .runs = count,
                     .run = runs_.data() + static_cast<int64_t>(l) * count,
                     .query = projected,
                     .key = {projected.data + width, projected.stride},
                     .value = {projected.data + 2 * width, projected.stride},
                     .head_stride = c.head_width(),
                     .beta = model_.delta() ? ConstRows(beta) : ConstRows(nullptr, 0),
                     .out = mixed});
      k.Sync();
      k.Linear({.rows = rows,
                .in = mixed,
                .weights = layer.output,
                .residual = x,
                .out = x});
      k.Sync();
      AddFeedForward(k, layer.feed_forward, rows, x, hidden, x);
    }
    WriteLogits(k, model_.frame, x, batch_->wanted, logits);
  }

 private:
  const FastWeightsModel& model_;
  const StepBatch* batch_ = nullptr;
  int64_t room_ = 0;  // rows that what follows holds
  RowBuffer x_, projected_, beta_, mixed_, hidden_;
  std::vector<FastWeightRun> runs_;  // per layer, per run of the batch
};

class FastWeightsDecoder final : public StepDecoder {
 public:
  FastWeightsDecoder(const ModelConfig& c, const TensorViews& views,
                     const StepOptions& options)
      : StepDecoder(c, FastWeightsCarry(c), MakeSpec(c), views, options),
        model_(MakeFastWeightsModel(c, weights())) {}

 protected:
  std::unique_ptr<StepPass> MakePass() const override {
    return std::make_unique<FastWeightsPass>(model_);
  }

  int64_t Scratch(int64_t) const override {
    const ModelConfig& c = config();
    return ScratchFloats(FastWeightCall{.width = c.head_width(), .nu = c.nu});
  }

  void ImportRows(int64_t, const TensorViews& carry, StateArena& arena,
                  int32_t slot) override {
    const ModelConfig& c = config();
    const int64_t features = Features(c), width = c.head_width();
    for (int e = 0; e < static_cast<int>(carry.size()); ++e) {
      const float* from = carry[e].data;
      float* to = arena.Fixed(slot, e);
      if (carry[e].shape.size() == 2) {  // z
        std::transform(from, from + c.heads * features, to, Flush);
        continue;
      }
      for (int64_t h = 0; h < c.heads; ++h) {
        for (int64_t i = 0; i < width; ++i) {
          for (int64_t n = 0; n < features; ++n) {
            to[(h * features + n) * width + i] =
                Flush(from[(h * width + i) * features + n]);
          }
        }
      }
    }
  }

 private:
  const FastWeightsModel model_;
};

}  // namespace

std::unique_ptr<Decoder> MakeFastWeightsDecoder(const ModelConfig& config,
                                                const TensorViews& views,
                                                const StepOptions& options) {
  return std::make_unique<FastWeightsDecoder>(config, views, options);
}

}  // namespace mnemon
