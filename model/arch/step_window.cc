// SPDX-License-Identifier: MIT
#include "model/arch/step_window.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/check.h"
#include "model/arch/relative_table.h"
#include "model/arch/step_weights.h"
#include "model/kernels/row_buffer.h"
#include "model/layers/alibi.h"
#include "model/layers/sinusoid.h"
#include "model/tensor_names.h"

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

class WindowDecoder final : public StepDecoder {
 public:
  WindowDecoder(const ModelConfig& c, const StateSpec& carry_spec,
                const TensorViews& views, const WindowShape& shape,
                const StepOptions& options)
      : StepDecoder(c, carry_spec, MakeSpec(c, shape), options),
        shape_(shape),
        weights_(views, options.format),
        frame_(MakeStepFrame(c, weights_)),
        scale_(1.0f / std::sqrt(static_cast<float>(c.head_width()))) {
    if (c.position_kind == PositionKind::kLearned) {
      learned_ = weights_.Get(names::Weight(names::kPositions)).data;
    }
    if (c.position_kind == PositionKind::kSinusoidal) {
      sinusoid_.emplace(c.positions, c.d_model);
    }
    if (c.position_kind == PositionKind::kAlibi) {
      const std::vector<double> slopes = AlibiSlopes(c.heads);
      slopes_.assign(slopes.begin(), slopes.end());
    }
    int64_t offset = 0;
    for (int64_t i = 0; i < c.layers; ++i) layers_.push_back(MakeLayer(i, offset));
  }

 protected:
  void MakeRoom(int64_t rows) override {
    if (rows <= room_) return;
    const ModelConfig& c = config();
    x_.Resize(rows, c.d_model);
    projected_.Resize(rows, 3 * c.d_model);
    mixed_.Resize(rows, c.d_model);
    hidden_.Resize(rows, c.d_ff);
    sights_.resize(rows);
    if (sinusoid_) sinusoid_rows_.Resize(rows, c.d_model);
    position_rows_.resize(rows);
    kernels().Reserve(std::max(LinearScratch(rows, std::max(c.d_model, c.d_ff)),
                               ScratchFloats(AttendCall{.width = c.head_width()})));
    room_ = rows;
  }

  void Prepare(const StepBatch& batch, StateArena&) override {
    for (const StepBatch::Run& run : batch.runs) {
      for (int64_t i = 0; i < run.count; ++i) {
        const int64_t position = run.position + i;
        const int64_t first = std::max<int64_t>(0, position - shape_.reach);
        MNEMON_CHECK(first / kBlockPositions >= run.base);  // never beyond the floor
        sights_[run.first + i] = {.blocks = batch.blocks.data() + run.block,
                                  .base = run.base,
                                  .first = first,
                                  .last = position,
                                  .query = position};
      }
    }
    PreparePositions(batch);
  }

  void Forward(StepKernels& k, const StepBatch& batch, float* logits) override {
    const ModelConfig& c = config();
    const int64_t rows = batch.rows(), width = c.d_model;
    const Rows x = x_.rows(), hidden = hidden_.rows(), mixed = mixed_.rows();
    const Rows projected = projected_.rows();
    const bool positioned = learned_ != nullptr || sinusoid_;
    EmbedTokens(k, frame_, rows, batch.ids.data(),
                positioned ? position_rows_.data() : nullptr, x);
    k.Sync();
    for (const Layer& layer : layers_) {
      k.Linear({.rows = rows,
                .in = x,
                .norm = layer.norm,
                .weights = layer.query_key_value,
                .out = projected});
      k.Sync();
      Append(k, layer, rows, batch.places.data(),
             {projected.data + width, projected.stride},
             {projected.data + 2 * width, projected.stride});
      if (rows > static_cast<int64_t>(batch.runs.size())) k.Sync();
      k.Attend({.rows = rows,
                .heads = c.heads,
                .width = c.head_width(),
                .scale = scale_,
                .query = projected,
                .out = mixed,
                .sights = sights_.data(),
                .key_offset = layer.key_offset,
                .value_offset = layer.value_offset,
                .fold_offset = layer.fold_offset,
                .relative_key = layer.relative.key,
                .relative_bias = layer.relative.bias,
                .table_rows = layer.relative.rows,
                .zero_row = shape_.zero_row,
                .slopes = slopes_.empty() ? nullptr : slopes_.data()});
      k.Sync();
      k.Linear({.rows = rows,
                .in = mixed,
                .weights = layer.output,
                .residual = x,
                .out = x});
      k.Sync();
      AddFeedForward(k, layer.feed_forward, rows, x, hidden, x);
    }
    WriteLogits(k, frame_, x, batch.wanted, logits);
  }

  // Keys and values as they are, or made from the inputs of the layer.
  void ImportRows(int64_t position, const TensorViews& carry, StateArena& arena,
                  int32_t slot) override {
    if (carry.empty()) return;  // no memory
    const int64_t width = config().d_model;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const TensorView& first = carry[shape_.carries_inputs ? i : 2 * i];
      const int64_t count = first.shape[0];
      std::vector<Place> places = Places(arena, slot, position - count, count);
      RowBuffer made;
      ConstRows key(first.data, width), value(nullptr, width);
      if (shape_.carries_inputs) {
        made.Resize(count, 3 * width);
        const Rows rows = made.rows();
        kernels().Reserve(LinearScratch(count, width));
        kernels().Run([&](StepKernels& k) {
          k.Linear({.rows = count,
                    .in = {first.data, width},
                    .norm = layer.norm,
                    .weights = layer.query_key_value,
                    .out = rows});
        });
        key = {rows.data + width, rows.stride};
        value = {rows.data + 2 * width, rows.stride};
      } else {
        value = {carry[2 * i + 1].data, width};
      }
      kernels().Run(
          [&](StepKernels& k) { Append(k, layer, count, places.data(), key, value); });
    }
  }

 private:
  // `offset`: of its first entry within a block.
  Layer MakeLayer(int64_t i, int64_t& offset) {
    const ModelConfig& c = config();
    const auto name = [i](const char* part) { return names::Layer(i, part); };
    Layer layer;
    layer.norm = weights_.Norm(name(names::kAttnNorm));
    layer.query_key_value =
        weights_.Linear({name(names::kQuery), name(names::kKey), name(names::kValue)});
    layer.output = weights_.Linear({name(names::kOutput)});
    layer.feed_forward = MakeStepFeedForward(c, i, weights_);
    layer.key_offset = offset;
    layer.value_offset = layer.key_offset + c.d_model * kBlockPositions;
    offset = layer.value_offset + c.d_model * kBlockPositions;
    if (c.position_kind != PositionKind::kRelative) return layer;
    layer.fold_offset = offset;
    offset += c.heads * kBlockPositions;
    layer.relative = MakeRelativeTable(weights_.Get(name(names::kRelativeKey)),
                                       &weights_.Get(name(names::kRelativeBias)),
                                       /*query_bias=*/nullptr, weights_.packed());
    layer.query_bias = weights_.Get(name(names::kQueryBias)).data;
    return layer;
  }

  void Append(StepKernels& k, const Layer& layer, int64_t rows, const Place* places,
              ConstRows key, ConstRows value) const {
    k.Append({.rows = rows,
              .heads = config().heads,
              .width = config().head_width(),
              .places = places,
              .key = key,
              .value = value,
              .key_offset = layer.key_offset,
              .value_offset = layer.value_offset,
              .fold_offset = layer.fold_offset,
              .query_bias = layer.query_bias});
  }

  // Where the position vector of each row starts.
  void PreparePositions(const StepBatch& batch) {
    const int64_t width = config().d_model;
    if (learned_ != nullptr) {
      for (int64_t r = 0; r < batch.rows(); ++r) {
        position_rows_[r] = learned_ + batch.positions[r] * width;
      }
    }
    if (!sinusoid_) return;
    for (int64_t r = 0; r < batch.rows(); ++r) {
      float* row = sinusoid_rows_.rows().row(r);
      sinusoid_->Write(batch.positions[r], row);
      position_rows_[r] = row;
    }
  }

  const WindowShape shape_;
  StepWeights weights_;
  const StepFrame frame_;
  const float scale_;
  const float* learned_ = nullptr;  // [P, D]
  std::optional<SinusoidTable> sinusoid_;
  std::vector<float> slopes_;
  std::vector<Layer> layers_;
  int64_t room_ = 0;  // rows that what follows holds
  RowBuffer x_, projected_, mixed_, hidden_, sinusoid_rows_;
  std::vector<Sight> sights_;
  std::vector<const float*> position_rows_;
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
