// SPDX-License-Identifier: MIT
#include "model/steps/step_window.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "model/kernels/row_buffer.h"
#include "model/positions/alibi.h"
#include "model/positions/sinusoid.h"
#include "model/steps/relative_table.h"
#include "model/steps/step_weights.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

struct Layer {
  NormView norm;
  MatrixView query_key_value;  // [3 D, D]
  MatrixView output;
  RelativeTable relative;             // null tables unless relative
  const float* query_bias = nullptr;  // u [H, K]
  StepFeedForward feed_forward;
  int64_t key_offset = 0, value_offset = 0, fold_offset = -1;  // within a block
};

StateSpec MakeSpec(const ModelConfig& c, const WindowShape& shape) {
  StateSpec spec;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "layer" + std::to_string(i);
    const auto add = [&](const char* part, std::vector<int64_t> row,
                         BlockLayout layout) {
      spec.entries.push_back({.name = layer + part,
                              .shape = std::move(row),
                              .growth = shape.growth,
                              .capacity = shape.capacity,
                              .layout = layout});
    };
    add(".key", {c.heads, c.head_width()}, BlockLayout::kColumns);
    add(".value", {c.heads, c.head_width()}, BlockLayout::kHeadRows);
    if (c.position_kind == PositionKind::kRelative) {
      add(".fold", {c.heads}, BlockLayout::kColumns);
    }
  }
  return spec;
}

// What no step changes.
struct WindowModel {
  const ModelConfig config;
  const WindowShape shape;
  const StepFrame frame;
  const float scale;
  const float* learned = nullptr;  // [P, D]
  std::optional<SinusoidTable> sinusoid;
  std::vector<float> slopes;
  std::vector<Layer> layers;
};

Layer MakeLayer(const ModelConfig& c, int64_t i, const StateSpec& spec,
                StepWeights& weights) {
  const auto name = [i](const char* part) { return names::Layer(i, part); };
  Layer layer;
  layer.norm = weights.Norm(name(names::kAttnNorm));
  layer.query_key_value =
      weights.Linear({name(names::kQuery), name(names::kKey), name(names::kValue)});
  layer.output = weights.Linear({name(names::kOutput)}, c.head_width());
  layer.feed_forward = MakeStepFeedForward(c, i, weights);
  const size_t entry = spec.entries.size() / c.layers * i;
  layer.key_offset = spec.offset(entry);
  layer.value_offset = spec.offset(entry + 1);
  if (c.position_kind != PositionKind::kRelative) return layer;
  layer.fold_offset = spec.offset(entry + 2);
  layer.relative = MakeRelativeTable(weights.Get(name(names::kRelativeKey)),
                                     &weights.Get(name(names::kRelativeBias)),
                                     /*query_bias=*/nullptr, weights);
  layer.query_bias = weights.Table(name(names::kQueryBias));
  return layer;
}

WindowModel MakeWindowModel(const ModelConfig& c, const WindowShape& shape,
                            const StateSpec& spec, StepWeights& weights) {
  WindowModel model{.config = c,
                    .shape = shape,
                    .frame = MakeStepFrame(c, weights),
                    .scale = 1.0f / std::sqrt(static_cast<float>(c.head_width())),
                    .sinusoid = std::nullopt,
                    .slopes = {},
                    .layers = {}};
  if (c.position_kind == PositionKind::kLearned) {
    model.learned = weights.Table(names::Weight(names::kPositions));
  }
  if (c.position_kind == PositionKind::kSinusoidal) {
    model.sinusoid.emplace(c.positions, c.d_model);
  }
  if (c.position_kind == PositionKind::kAlibi) {
    const std::vector<double> slopes = AlibiSlopes(c.heads);
    model.slopes.assign(slopes.begin(), slopes.end());
  }
  for (int64_t i = 0; i < c.layers; ++i) {
    model.layers.push_back(MakeLayer(c, i, spec, weights));
  }
  weights.Pack();
  return model;
}

void Append(CpuWorker& k, const WindowModel& model, const Layer& layer, int64_t rows,
            const Place* places, ConstRows key, ConstRows value) {
  k.Append({.rows = rows,
            .heads = model.config.heads,
            .width = model.config.head_width(),
            .places = places,
            .key = key,
            .value = value,
            .head_stride = model.config.head_width(),
            .key_offset = layer.key_offset,
            .value_offset = layer.value_offset,
            .fold_offset = layer.fold_offset,
            .query_bias = layer.query_bias});
}

class WindowPass final : public StepPass {
 public:
  explicit WindowPass(const WindowModel& model) : model_(model) {}

  void MakeRoom(int64_t rows) override {
    if (rows <= room_) return;
    const ModelConfig& c = model_.config;
    x_.Resize(rows, c.d_model);
    projected_.Resize(rows, 3 * c.d_model);
    mixed_.Resize(rows, c.d_model);
    hidden_.Resize(rows, c.d_ff);
    key_ranges_.resize(rows);
    if (model_.sinusoid) sinusoid_rows_.Resize(rows, c.d_model);
    position_rows_.resize(rows);
    room_ = rows;
  }

  void Prepare(const StepBatch& batch, StateArena&) override {
    batch_ = &batch;
    groups_ = 0;
    for (const StepBatch::Run& run : batch.runs) {
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t position = run.position + i;
        const int64_t first = std::max<int64_t>(0, position - model_.shape.reach);
        // Never beyond the floor.
        MNEMON_CHECK(first / kBlockPositions >= run.table.base);
        key_ranges_[run.first + i] = {.blocks = run.table.blocks,
                                      .base = run.table.base,
                                      .first = first,
                                      .last = position,
                                      .query = position};
        groups_ = std::max(groups_, KeyGroups(key_ranges_[run.first + i]));
      }
    }
    PreparePositions();
  }

  void Forward(CpuWorker& k, float* logits) override {
    const ModelConfig& c = model_.config;
    const int64_t rows = batch_->rows(), width = c.d_model;
    const Rows x = x_.rows(), hidden = hidden_.rows(), mixed = mixed_.rows();
    const Rows projected = projected_.rows();
    const bool positioned = model_.learned != nullptr || model_.sinusoid;
    EmbedTokens(k, model_.frame, rows, batch_->ids.data(),
                positioned ? position_rows_.data() : nullptr, x);
    k.Sync();
    for (const Layer& layer : model_.layers) {
      k.Linear({.rows = rows,
                .in = x,
                .norm = layer.norm,
                .weights = layer.query_key_value,
                .out = projected});
      k.Sync();
      Append(k, model_, layer, rows, batch_->places.data(),
             {projected.data + width, projected.stride},
             {projected.data + 2 * width, projected.stride});
      if (rows > static_cast<int64_t>(batch_->runs.size())) k.Sync();
      k.Attend({.rows = rows,
                .heads = c.heads,
                .width = c.head_width(),
                .scale = model_.scale,
                .query = projected,
                .head_stride = c.head_width(),
                .out = mixed,
                .key_ranges = key_ranges_.data(),
                .groups = groups_,
                .key_offset = layer.key_offset,
                .value_offset = layer.value_offset,
                .fold_offset = layer.fold_offset,
                .relative_key = layer.relative.key,
                .relative_bias = layer.relative.bias,
                .table_rows = layer.relative.rows,
                .zero_row = model_.shape.zero_row,
                .slopes = model_.slopes.empty() ? nullptr : model_.slopes.data()});
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
  // Where the position vector of each row starts.
  void PreparePositions() {
    const std::vector<int64_t>& positions = batch_->positions;
    for (size_t r = 0; r < positions.size(); ++r) {
      if (model_.learned != nullptr) {
        position_rows_[r] = model_.learned + positions[r] * model_.config.d_model;
      } else if (model_.sinusoid) {
        float* row = sinusoid_rows_.rows().row(static_cast<int64_t>(r));
        model_.sinusoid->Write(positions[r], row);
        position_rows_[r] = row;
      }
    }
  }

  const WindowModel& model_;
  const StepBatch* batch_ = nullptr;
  int64_t room_ = 0;  // rows that what follows holds
  RowBuffer x_, projected_, mixed_, hidden_, sinusoid_rows_;
  std::vector<KeyRange> key_ranges_;
  int64_t groups_ = 0;
  std::vector<const float*> position_rows_;
};

class WindowDecoder final : public StepDecoder {
 public:
  WindowDecoder(const ModelConfig& c, const StateSpec& carry_spec,
                const TensorViews& views, const WindowShape& shape,
                const StepOptions& options)
      : StepDecoder(c, carry_spec, MakeSpec(c, shape), views, options),
        model_(MakeWindowModel(c, shape, spec(), weights())) {}

 protected:
  std::unique_ptr<StepPass> MakePass() const override {
    return std::make_unique<WindowPass>(model_);
  }

  int64_t Scratch(int64_t groups) const override {
    return ScratchFloats(AttendCall{.width = config().head_width(), .groups = groups});
  }

  // Keys and values as they are, or made from the inputs of the layer.
  void ImportRows(int64_t position, const TensorViews& carry, StateArena& arena,
                  int32_t slot) override {
    if (carry.empty()) return;  // no memory
    const int64_t width = config().d_model;
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      const Layer& layer = model_.layers[i];
      const TensorView& first = carry[model_.shape.carries_inputs ? i : 2 * i];
      const int64_t count = first.shape[0];
      std::vector<Place> places = Places(arena, slot, position - count, count);
      RowBuffer made;
      ConstRows key(first.data, width), value(nullptr, width);
      if (model_.shape.carries_inputs) {
        made.Resize(count, 3 * width);
        const Rows rows = made.rows();
        kernels().Reserve(LinearScratch(count, width));
        kernels().Run([&](CpuWorker& k) {
          k.Linear({.rows = count,
                    .in = {first.data, width},
                    .norm = layer.norm,
                    .weights = layer.query_key_value,
                    .out = rows});
        });
        key = {rows.data + width, rows.stride};
        value = {rows.data + 2 * width, rows.stride};
      } else {
        made.Resize(count, 2 * width);
        const Rows rows = made.rows();
        for (int64_t r = 0; r < count; ++r) {
          const float* const from = first.data + r * width;
          const float* const other = carry[2 * i + 1].data + r * width;
          std::transform(from, from + width, rows.row(r), Flush);
          std::transform(other, other + width, rows.row(r) + width, Flush);
        }
        key = rows;
        value = {rows.data + width, rows.stride};
      }
      kernels().Run([&](CpuWorker& k) {
        Append(k, model_, layer, count, places.data(), key, value);
      });
    }
  }

 private:
  const WindowModel model_;
};

}  // namespace

std::unique_ptr<Decoder> MakeWindowDecoder(const ModelConfig& config,
                                           const StateSpec& carry_spec,
                                           const TensorViews& views,
                                           const WindowShape& shape,
                                           const StepOptions& options) {
  return std::make_unique<WindowDecoder>(config, carry_spec, views, shape, options);
}

}  // namespace mnemon
