// SPDX-License-Identifier: MIT
// The step form of the Feedback Transformer: token by token, the sessions of a batch
// side by side. A memory is made from all layers' outputs of its token, and what every
// layer reads of it is cached at once: key, value and u.k, per layer or, with shared
// keys and values, the two once and u.k per layer.
#include "model/steps/feedback_step.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "model/kernels/row_buffer.h"
#include "model/numerics/functions.h"
#include "model/steps/relative_table.h"
#include "model/steps/step_decoder.h"
#include "model/steps/step_weights.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  NormView norm;
  MatrixView query;
  RelativeTable relative;
  const float* query_bias = nullptr;  // u [H, K]
  MatrixView output;
  StepFeedForward feed_forward;
  int64_t key_offset = 0, value_offset = 0, fold_offset = 0;  // within a block
  int64_t key_column = 0, value_column = 0;  // within a row of `projected_`
};

bool Shared(const ModelConfig& c) { return c.projection == Projection::kShared; }

StateSpec MakeSpec(const ModelConfig& c) {
  StateSpec spec;
  const auto add = [&](std::string name, std::vector<int64_t> row, BlockLayout layout) {
    spec.entries.push_back({.name = std::move(name),
                            .shape = std::move(row),
                            .growth = Growth::kAppend,
                            .capacity = c.positions + 1,
                            .layout = layout});
  };
  const auto add_pair = [&](const std::string& owner) {
    add(owner + ".key", {c.heads, c.head_width()}, BlockLayout::kColumns);
    add(owner + ".value", {c.heads, c.head_width()}, BlockLayout::kHeadRows);
  };
  if (Shared(c)) add_pair("memory");
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    if (!Shared(c)) add_pair(layer);
    add(layer + ".fold", {c.heads}, BlockLayout::kColumns);
  }
  return spec;
}

// What no step changes.
struct FeedbackModel {
  const ModelConfig config;
  const StepFrame frame;
  const float scale;
  const float* mix = nullptr;  // [L+1], after the softmax
  MatrixView memory_maps;      // keys and values of all layers
  std::vector<Layer> layers;
};

const float* MakeMix(StepWeights& weights) {
  const std::span<const float> raw = weights.Get(names::kMemoryMix).values();
  float* const mix = weights.Make(static_cast<int64_t>(raw.size()));
  weights.Later({raw}, [mix, raw] {
    const double most = std::ranges::max(raw);
    double total = 0;
    for (const float value : raw) total += numerics::Exp(value - most);
    for (size_t l = 0; l < raw.size(); ++l) {
      mix[l] = Flush(static_cast<float>(numerics::Exp(raw[l] - most) / total));
    }
  });
  return mix;
}

// Keys and values of all layers as one matrix.
MatrixView MakeMemoryMaps(const ModelConfig& c, StepWeights& weights) {
  if (Shared(c)) return weights.Linear({names::kMemoryKey, names::kMemoryValue});
  std::vector<std::string> bases;
  for (int64_t i = 0; i < c.layers; ++i) {
    bases.push_back(names::Layer(i, names::kKey));
    bases.push_back(names::Layer(i, names::kValue));
  }
  return weights.Linear(bases);
}

Layer MakeLayer(const ModelConfig& c, int64_t i, StepWeights& weights) {
  const auto name = [i](const char* part) { return names::Layer(i, part); };
  Layer layer;
  layer.norm = weights.Norm(name(names::kAttnNorm));
  layer.query = weights.Linear({name(names::kQuery)});
  const TensorView& query_bias = weights.Get(name(names::kQueryBias));
  layer.relative =
      MakeRelativeTable(weights.Get(name(names::kRelativeKey)),
                        weights.Find(name(names::kRelativeBias)), &query_bias, weights);
  layer.query_bias = weights.Table(name(names::kQueryBias));
  layer.output = weights.Linear({name(names::kOutput)}, c.head_width());
  layer.feed_forward = MakeStepFeedForward(c, i, weights);
  return layer;
}

FeedbackModel MakeFeedbackModel(const ModelConfig& c, const StateSpec& spec,
                                StepWeights& weights) {
  FeedbackModel model{.config = c,
                      .frame = MakeStepFrame(c, weights),
                      .scale = 1.0f / std::sqrt(static_cast<float>(c.head_width())),
                      .mix = MakeMix(weights),
                      .memory_maps = MakeMemoryMaps(c, weights),
                      .layers = {}};
  for (int64_t i = 0; i < c.layers; ++i) {
    Layer& layer = model.layers.emplace_back(MakeLayer(c, i, weights));
    const size_t key = Shared(c) ? 0 : 3 * i;
    layer.key_offset = spec.offset(key);
    layer.value_offset = spec.offset(key + 1);
    layer.fold_offset = spec.offset(Shared(c) ? 2 + i : key + 2);
    layer.key_column = Shared(c) ? 0 : 2 * i * c.d_model;
    layer.value_column = layer.key_column + c.d_model;
  }
  weights.Pack();
  return model;
}

// Projects memories [rows, D] and puts keys, values and u.k of every layer in place.
void Remember(CpuWorker& k, const FeedbackModel& model, int64_t rows, ConstRows memory,
              const Place* places, Rows projected) {
  const ModelConfig& c = model.config;
  k.Linear(
      {.rows = rows, .in = memory, .weights = model.memory_maps, .out = projected});
  k.Sync();
  for (const Layer& layer : model.layers) {
    // A shared pair is written again by every layer, with the same numbers.
    k.Append({.rows = rows,
              .heads = c.heads,
              .width = c.head_width(),
              .places = places,
              .key = {projected.data + layer.key_column, projected.stride},
              .value = {projected.data + layer.value_column, projected.stride},
              .head_stride = c.head_width(),
              .key_offset = layer.key_offset,
              .value_offset = layer.value_offset,
              .fold_offset = layer.fold_offset,
              .query_bias = layer.query_bias});
  }
}

class FeedbackPass final : public StepPass {
 public:
  explicit FeedbackPass(const FeedbackModel& model) : model_(model) {}

  void MakeRoom(int64_t rows) override {
    if (rows <= room_) return;
    const ModelConfig& c = model_.config;
    outputs_.Resize((c.layers + 1) * rows, c.d_model);
    query_.Resize(rows, c.d_model);
    mixed_.Resize(rows, c.d_model);
    attended_.Resize(rows, c.d_model);
    hidden_.Resize(rows, c.d_ff);
    memory_.Resize(rows, c.d_model);
    projected_.Resize(rows, model_.memory_maps.outputs);
    last_.Resize(rows, c.d_model);
    waves_.resize(kMaxChunk);
    for (Wave& wave : waves_) {
      wave.ids.reserve(rows);
      wave.rows.reserve(rows);
      wave.key_ranges.reserve(rows);
      wave.places.reserve(rows);
    }
    room_ = rows;
  }

  // The i-th tokens of all runs are one wave: those that have no memory yet come last,
  // since attention leaves them out.
  void Prepare(const StepBatch& batch, StateArena&) override {
    batch_ = &batch;
    int64_t most = 0;
    for (const StepBatch::Run& run : batch.runs) most = std::max(most, run.count);
    wave_count_ = most;
    for (int64_t i = 0; i < most; ++i) {
      Wave& wave = waves_[i];
      wave.ids.clear();
      wave.rows.clear();
      wave.key_ranges.clear();
      wave.places.clear();
      wave.groups = 0;
      for (const bool fresh : {false, true}) {
        for (const StepBatch::Run& run : batch.runs) {
          const int64_t position = run.position + i;
          if (i >= run.count || (position == 0) != fresh) continue;
          wave.ids.push_back(batch.ids[run.first + i]);
          wave.rows.push_back(static_cast<int32_t>(run.first + i));
          wave.places.push_back(batch.places[run.first + i]);
          wave.key_ranges.push_back({.blocks = run.table.blocks,
                                     .base = run.table.base,
                                     .first = 0,
                                     .last = position - 1,
                                     .query = position});
          wave.groups = std::max(wave.groups, KeyGroups(wave.key_ranges.back()));
        }
        if (!fresh) wave.remembering = static_cast<int64_t>(wave.ids.size());
      }
    }
  }

  void Forward(CpuWorker& k, float* logits) override {
    for (int64_t i = 0; i < wave_count_; ++i) FeedWave(k, waves_[i]);
    WriteLogits(k, model_.frame, last_.rows(), batch_->wanted, logits);
  }

 private:
  // One token of each of some sessions.
  struct Wave {
    int64_t remembering = 0;  // rows that have memories, the first ones
    std::vector<int32_t> ids;
    std::vector<int32_t> rows;  // of the batch
    std::vector<KeyRange> key_ranges;
    int64_t groups = 0;
    std::vector<Place> places;
  };

  void FeedWave(CpuWorker& k, const Wave& wave) {
    const ModelConfig& c = model_.config;
    const int64_t width = c.d_model, seen = wave.remembering;
    const auto rows = static_cast<int64_t>(wave.ids.size());
    const auto output = [&](size_t l) {
      const Rows all = outputs_.rows();
      return Rows{all.row(static_cast<int64_t>(l) * rows), all.stride};
    };
    const Rows query = query_.rows(), mixed = mixed_.rows(), memory = memory_.rows();
    const Rows attended = attended_.rows(), hidden = hidden_.rows();
    EmbedTokens(k, model_.frame, rows, wave.ids.data(), /*positions=*/nullptr,
                output(0));
    k.Sync();
    for (size_t l = 0; l < model_.layers.size(); ++l) {
      const Layer& layer = model_.layers[l];
      if (seen > 0) {
        k.Linear({.rows = seen,
                  .in = output(l),
                  .norm = layer.norm,
                  .weights = layer.query,
                  .out = query});
        k.Sync();
        k.Attend({.rows = seen,
                  .heads = c.heads,
                  .width = c.head_width(),
                  .scale = model_.scale,
                  .query = query,
                  .head_stride = c.head_width(),
                  .out = mixed,
                  .key_ranges = wave.key_ranges.data(),
                  .groups = wave.groups,
                  .key_offset = layer.key_offset,
                  .value_offset = layer.value_offset,
                  .fold_offset = layer.fold_offset,
                  .relative_key = layer.relative.key,
                  .relative_bias = layer.relative.bias,
                  .table_rows = layer.relative.rows,
                  .zero_row = layer.relative.rows});
        k.Sync();
        k.Linear({.rows = seen,
                  .in = mixed,
                  .weights = layer.output,
                  .residual = output(l),
                  .out = attended});
        k.Sync();
        AddFeedForward(k, layer.feed_forward, seen, attended, hidden, output(l + 1));
      }
      if (rows > seen) {
        const auto fresh = [&](Rows all) { return Rows{all.row(seen), all.stride}; };
        AddFeedForward(k, layer.feed_forward, rows - seen, fresh(output(l)), hidden,
                       fresh(output(l + 1)));
      }
    }
    // The last layer's output for the head, and the memory for the next tokens.
    k.Mix({.rows = rows,
           .width = width,
           .layers = 1,
           .weights = &one_,
           .in = output(model_.layers.size()),
           .to = wave.rows.data(),
           .out = last_.rows()});
    k.Mix({.rows = rows,
           .width = width,
           .layers = c.layers + 1,
           .weights = model_.mix,
           .in = output(0),
           .layer_stride = rows * output(0).stride,
           .out = memory});
    k.Sync();
    Remember(k, model_, rows, memory, wave.places.data(), projected_.rows());
    k.Sync();
  }

  const FeedbackModel& model_;
  const StepBatch* batch_ = nullptr;
  const float one_ = 1.0f;
  int64_t room_ = 0;   // rows that what follows holds
  RowBuffer outputs_;  // of the embedding and each layer
  RowBuffer query_, mixed_, attended_, hidden_, memory_, projected_;
  RowBuffer last_;  // per row of the batch
  std::vector<Wave> waves_;
  int64_t wave_count_ = 0;
};

class FeedbackDecoder final : public StepDecoder {
 public:
  FeedbackDecoder(const ModelConfig& c, const TensorViews& views,
                  const StepOptions& options)
      : StepDecoder(c, FeedbackCarry(c), MakeSpec(c), views, options),
        model_(MakeFeedbackModel(c, spec(), weights())) {}

 protected:
  std::unique_ptr<StepPass> MakePass() const override {
    return std::make_unique<FeedbackPass>(model_);
  }

  int64_t Scratch(int64_t groups) const override {
    return ScratchFloats(AttendCall{.width = config().head_width(), .groups = groups});
  }

  void ImportRows(int64_t position, const TensorViews& carry, StateArena& arena,
                  int32_t slot) override {
    const std::vector<Place> places = Places(arena, slot, 0, position);
    RowBuffer projected;
    projected.Resize(position, model_.memory_maps.outputs);
    kernels().Reserve(LinearScratch(position, config().d_model));
    kernels().Run([&](CpuWorker& k) {
      Remember(k, model_, position, {carry[0].data, config().d_model}, places.data(),
               projected.rows());
    });
  }

 private:
  const FeedbackModel model_;
};

}  // namespace

std::unique_ptr<Decoder> MakeFeedbackDecoder(const ModelConfig& config,
                                             const TensorViews& views,
                                             const StepOptions& options) {
  return std::make_unique<FeedbackDecoder>(config, views, options);
}

}  // namespace mnemon
