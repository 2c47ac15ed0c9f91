// SPDX-License-Identifier: MIT
#include "model/steps/encoder_prediction.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/kernels/cpu_operations.h"

namespace mnemon {
namespace {

// Rows of a tile of attention: enough for the matrix kernel to be fast.
constexpr int64_t kMostTileRows = 24;

int64_t TileRows(int64_t time, int64_t width) {
  return std::clamp<int64_t>(kPieceMultiplyAdds / (2 * time * width), 1, kMostTileRows);
}

Rows From(Rows all, int64_t row) { return {all.row(row), all.stride}; }

}  // namespace

EncoderPrediction::EncoderPrediction(const EncoderModel& model, CpuKernels& kernels,
                                     int workers, Predictor::Input input)
    : model_(model),
      kernels_(kernels),
      workers_(workers),
      input_(std::move(input)),
      time_(static_cast<int64_t>(input_.tokens.size()) / input_.batch),
      notebook_(input_.maps == AttentionMaps::kNotebook),
      per_group_(std::min(input_.batch, std::max<int64_t>(1, kEncoderBlock / time_))),
      tile_rows_(TileRows(time_, model.config.head_width())) {
  const ModelConfig& c = model_.config;
  const auto tokens = static_cast<int64_t>(input_.tokens.size());
  output_.logits.resize(tokens * c.vocab);
  if (input_.maps != AttentionMaps::kNone) {
    output_.maps.resize(c.layers);
    for (std::vector<float>& map : output_.maps) map.resize(c.heads * tokens * time_);
  }
  const int64_t rows = per_group_ * time_, block = std::min(rows, kEncoderBlock);
  const int64_t heads = per_group_ * c.heads;
  x_.Resize(rows, c.d_model);
  for (QueryKey* made : {&used_, &shown_}) {
    if (made == &shown_ && !notebook_) continue;
    made->query.Resize(rows, c.d_model);
    made->keys.resize(heads * padded_time() * c.head_width());
  }
  values_.resize(heads * padded_width() * time_);
  projected_.Resize(block, 3 * c.d_model);
  mixed_.Resize(block, c.d_model);
  hidden_.Resize(block, c.d_ff);
  if (model_.sinusoid) positions_.Resize(block, c.d_model);
  position_rows_.resize(block);
  scores_.resize(workers_);
  for (RowBuffer& scores : scores_) scores.Resize(tile_rows_, time_);
  steps_.reserve(5 * (rows / kEncoderBlock + 1));
  tiles_.reserve(block / tile_rows_ + 2 + block / time_);
  kernels_.Reserve(std::max({LinearScratch(block, std::max(c.d_model, c.d_ff)),
                             LinearScratch(tile_rows_, c.head_width()),
                             LinearScratch(tile_rows_, time_)}));
  BeginGroup();
}

void EncoderPrediction::BeginGroup() {
  rows_ = std::min(per_group_, input_.batch - sequence_) * time_;
  phase_ = 0;
  BeginPhase();
}

void EncoderPrediction::BeginPhase() {
  steps_.clear();
  const auto each_block = [&](std::initializer_list<Kind> kinds) {
    for (int64_t first = 0; first < rows_; first += kEncoderBlock) {
      for (const Kind kind : kinds) {
        steps_.push_back({kind, first, std::min(kEncoderBlock, rows_ - first)});
      }
    }
  };
  if (phase_ == 0) {
    each_block({Kind::kEmbed});
  } else if (phase_ <= layers()) {
    each_block({Kind::kProject});
    each_block({Kind::kAttend, Kind::kOutput, Kind::kFeedIn, Kind::kFeedOut});
  } else {
    each_block({Kind::kHeadIn, Kind::kLogits});
  }
  step_ = 0;
  BeginStep();
}

void EncoderPrediction::BeginStep() {
  unit_ = 0;
  tiles_.clear();
  if (step().kind != Kind::kAttend) return;
  const int64_t end = step().first + step().rows;
  for (int64_t row = step().first; row < end;) {
    const int64_t left = std::min(end, (row / time_ + 1) * time_) - row;
    tiles_.push_back({row, std::min(tile_rows_, left)});
    row += tiles_.back().rows;
  }
}

void EncoderPrediction::EndStep() {
  if (++step_ < steps_.size()) return BeginStep();
  if (++phase_ <= layers() + 1) return BeginPhase();
  sequence_ += per_group_;
  done_ = sequence_ >= input_.batch;
  if (!done_) BeginGroup();
}

int64_t EncoderPrediction::Units() const {
  if (step().kind != Kind::kAttend) return step().rows;
  return static_cast<int64_t>(tiles_.size()) * model_.config.heads;
}

int64_t EncoderPrediction::UnitCost() const {
  const ModelConfig& c = model_.config;
  const int64_t d = c.d_model, f = c.d_ff;
  switch (step().kind) {
    case Kind::kEmbed:
      return 16 * d;  // in time; sinusoids take longer than sums
    case Kind::kProject:
      return (notebook_ ? 5 : 3) * d * d;
    case Kind::kAttend:
      // The softmax takes as long as some multiply-adds.
      return tile_rows_ * time_ * (notebook_ ? 3 : 2) * (c.head_width() + 16);
    case Kind::kOutput:
    case Kind::kHeadIn:
      return d * d;
    case Kind::kFeedIn:
      return (c.gated ? 2 : 1) * d * f;
    case Kind::kFeedOut:
      return d * f;
    case Kind::kLogits:
      return d * c.vocab;
  }
  return 1;
}

absl::StatusOr<bool> EncoderPrediction::Advance() {
  int64_t left = kPieceMultiplyAdds;
  while (!done_) {
    const int64_t cost = UnitCost();
    if (cost > left && left < kPieceMultiplyAdds) break;
    const int64_t count = std::clamp<int64_t>(left / cost, 1, Units() - unit_);
    Compute(unit_, count);
    left -= count * cost;
    unit_ += count;
    if (unit_ == Units()) EndStep();
  }
  return done_;
}

void EncoderPrediction::Linear(const LinearCall& call) {
  kernels_.Run([&](StepKernels& k) { k.Linear(call); });
}

void EncoderPrediction::Compute(int64_t first, int64_t count) {
  const int64_t row = step().first + first;  // of the group
  const Rows x = From(x_.rows(), row), mixed = From(mixed_.rows(), first);
  const Rows hidden = From(hidden_.rows(), first);
  switch (step().kind) {
    case Kind::kEmbed:
      return Embed(first, count);
    case Kind::kProject:
      return Project(first, count);
    case Kind::kAttend:
      return Attend(first, count);
    case Kind::kOutput:
      return Linear({.rows = count,
                     .in = mixed,
                     .weights = layer().output,
                     .residual = x,
                     .out = x});
    case Kind::kFeedIn: {
      const StepFeedForward& weights = layer().feed_forward;
      return Linear({.rows = count,
                     .in = x,
                     .norm = weights.norm,
                     .weights = weights.in,
                     .act = weights.act,
                     .gate = weights.gated ? &weights.factor : nullptr,
                     .out = hidden});
    }
    case Kind::kFeedOut:
      return Linear({.rows = count,
                     .in = hidden,
                     .weights = layer().feed_forward.out,
                     .residual = x,
                     .out = x});
    case Kind::kHeadIn:
      kernels_.Run([&](StepKernels& k) {
        k.Linear({.rows = count, .in = x, .weights = model_.head_in, .out = mixed});
        k.Sync();
        k.Norm({.rows = count,
                .width = model_.config.d_model,
                .in = mixed,
                .norm = model_.frame.norm,
                .act = model_.config.activation == Activation::kGelu ? Act::kGelu
                                                                     : Act::kRelu,
                .out = mixed});
      });
      return;
    case Kind::kLogits: {
      const int64_t vocab = model_.config.vocab;
      const Rows logits{output_.logits.data() + (sequence_ * time_ + row) * vocab,
                        vocab};
      kernels_.Run([&](StepKernels& k) {
        k.Linear(
            {.rows = count, .in = mixed, .weights = model_.frame.head, .out = logits});
        if (model_.logits_norm.gain == nullptr) return;
        k.Sync();
        k.Norm({.rows = count,
                .width = vocab,
                .in = logits,
                .norm = model_.logits_norm,
                .out = logits});
      });
      return;
    }
  }
}

void EncoderPrediction::Embed(int64_t first, int64_t count) {
  const int64_t row = step().first + first, width = model_.config.d_model;
  const bool positioned = model_.learned != nullptr || model_.sinusoid;
  for (int64_t r = 0; r < count; ++r) {
    const int64_t position = (row + r) % time_;
    if (model_.learned != nullptr) {
      position_rows_[r] = model_.learned + position * width;
    } else if (model_.sinusoid) {
      float* const to = positions_.rows().row(r);
      model_.sinusoid->Write(position, to);
      position_rows_[r] = to;
    }
  }
  kernels_.Run([&](StepKernels& k) {
    EmbedTokens(k, model_.frame, count, input_.tokens.data() + sequence_ * time_ + row,
                positioned ? position_rows_.data() : nullptr, From(x_.rows(), row));
  });
}

void EncoderPrediction::Project(int64_t first, int64_t count) {
  const int64_t row = step().first + first;
  const Rows x = From(x_.rows(), row), projected = projected_.rows();
  Linear({.rows = count,
          .in = x,
          .norm = layer().norm,
          .weights = layer().query_key_value,
          .out = projected});
  Spread(row, count, used_, &values_);
  if (!notebook_) return;
  // Queries and keys of what has not been normed.
  MatrixView query_key = layer().query_key_value;
  query_key.outputs = 2 * model_.config.d_model;
  Linear({.rows = count, .in = x, .weights = query_key, .out = projected});
  Spread(row, count, shown_, nullptr);
}

void EncoderPrediction::Spread(int64_t first, int64_t count, QueryKey& to,
                               AlignedFloats* values) {
  const int64_t d = model_.config.d_model, heads = model_.config.heads;
  const int64_t width = model_.config.head_width();
  const Rows projected = projected_.rows();
  kernels_.RunAlone([&](StepKernels&, int worker) {
    const Share share{worker, workers_};
    for (int64_t r = share.begin(count); r < share.end(count); ++r) {
      const float* const from = projected.row(r);
      const int64_t sequence = (first + r) / time_, t = (first + r) % time_;
      std::copy_n(from, d, to.query.rows().row(first + r));
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t head = sequence * heads + h;
        float* const keys = to.keys.data() + head * padded_time() * width +
                            t / kPanel * width * kPanel + t % kPanel;
        const float* const key = from + d + h * width;
        for (int64_t i = 0; i < width; ++i) keys[i * kPanel] = key[i];
        if (values == nullptr) continue;
        float* const panels =
            values->data() + head * padded_width() * time_ + t * kPanel;
        const float* const value = from + 2 * d + h * width;
        for (int64_t i = 0; i < width; ++i) {
          panels[i / kPanel * time_ * kPanel + i % kPanel] = value[i];
        }
      }
    }
  });
}

void EncoderPrediction::Attend(int64_t first, int64_t count) {
  kernels_.RunAlone([&](StepKernels& k, int worker) {
    const Share share{worker, workers_};
    for (int64_t u = share.begin(count); u < share.end(count); ++u) {
      AttendUnit(k, worker, first + u);
    }
  });
}

void EncoderPrediction::AttendUnit(StepKernels& k, int worker, int64_t unit) {
  const int64_t heads = model_.config.heads, width = model_.config.head_width();
  const Tile& tile = tiles_[unit / heads];
  const int64_t h = unit % heads, head = tile.first / time_ * heads + h;
  const Rows scores = scores_[worker].rows();
  const auto show = [&] {
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::copy_n(scores.row(r), time_, MapRow(tile.first + r, h));
    }
  };
  if (notebook_) {
    Weigh(k, shown_, tile, h, scores);
    show();
  }
  Weigh(k, used_, tile, h, scores);
  if (input_.maps == AttentionMaps::kUsed) show();
  const Rows mixed = From(mixed_.rows(), tile.first - step().first);
  k.Linear({.rows = tile.rows,
            .in = scores,
            .weights = {.outputs = width,
                        .inputs = time_,
                        .panels = values_.data() + head * padded_width() * time_},
            .out = {mixed.data + h * width, mixed.stride}});
}

void EncoderPrediction::Weigh(StepKernels& k, const QueryKey& from, const Tile& tile,
                              int64_t h, Rows scores) {
  const ModelConfig& c = model_.config;
  const int64_t width = c.head_width();
  const int64_t sequence = tile.first / time_, position = tile.first % time_;
  const ConstRows queries(const_cast<QueryKey&>(from).query.rows());
  k.Linear({.rows = tile.rows,
            .in = {queries.row(tile.first) + h * width, queries.stride},
            .weights = {.outputs = time_,
                        .inputs = width,
                        .panels = from.keys.data() +
                                  (sequence * c.heads + h) * padded_time() * width},
            .out = scores});
  const uint8_t* mask = nullptr;
  if (input_.mask == PredictMask::kExplicit) {
    const auto one = static_cast<size_t>(time_ * time_);
    const bool shared = input_.explicit_mask.size() == one;
    mask = input_.explicit_mask.data() +
           (shared ? 0 : (sequence_ + sequence) * time_ * time_) + position * time_;
  }
  k.Softmax({.rows = tile.rows,
             .keys = time_,
             .query = position,
             .scale = model_.scale,
             .slope = model_.slopes.empty() ? 0 : model_.slopes[h],
             .causal = input_.mask == PredictMask::kCausal ||
                       (input_.mask == PredictMask::kConfig && c.mask == Mask::kCausal),
             .mask = mask,
             .scores = scores});
}

float* EncoderPrediction::MapRow(int64_t row, int64_t head) {
  const int64_t sequence = sequence_ + row / time_;
  return output_.maps[phase_ - 1].data() +
         ((sequence * model_.config.heads + head) * time_ + row % time_) * time_;
}

}  // namespace mnemon
