// SPDX-License-Identifier: MIT
#include "model/program/encoder_prediction.h"

#include <algorithm>
#include <utility>

#include "model/operations/cpu_operations.h"

namespace mnemon {
namespace {

// Least cost of a unit, for norms and copies, and cost of a run of the thread pool.
// Products of a narrow model cost less.
constexpr int64_t kUnitCost = int64_t{1} << 10;
constexpr int64_t kRunCost = int64_t{1} << 16;

Rows From(Rows all, int64_t row) { return {all.row(row), all.stride}; }

}  // namespace

EncoderPrediction::EncoderPrediction(const EncoderModel& model, CpuTeam& team,
                                     int workers, Predictor::Input input)
    : model_(model),
      team_(team),
      input_(std::move(input)),
      shape_(model.description, workers, input_.batch,
             static_cast<int64_t>(input_.tokens.size()) / input_.batch, input_.maps),
      time_(shape_.time),
      notebook_(input_.maps == AttentionMaps::kNotebook),
      buffers_(model.description, shape_) {
  const int64_t block = std::min(shape_.group_rows(), kEncoderBlock);
  int64_t scratch = std::max(LinearScratch(block, model_.description.width),
                             LinearScratch(shape_.tile_rows, time_));
  for (const EncoderPhase& phase : model_.phases) {
    if (phase.attention) {
      const Attention& a = phase.attention->settings;
      scratch = std::max({scratch, LinearScratch(block, a.heads * a.width),
                          LinearScratch(shape_.tile_rows, a.width)});
    }
    for (const FeedForwardOp& feed : phase.feeds) {
      scratch = std::max(scratch, LinearScratch(block, feed.in.outputs));
    }
  }
  team_.Reserve(scratch);
  BeginGroup();
}

void EncoderPrediction::BeginGroup() {
  rows_ = std::min(shape_.per_group, input_.batch - sequence_) * time_;
  phase_ = 0;
  map_ = 0;
  BeginPhase();
}

void EncoderPrediction::BeginPhase() {
  buffers_.steps.clear();
  const auto each_block = [&](const auto& steps_of) {
    for (int64_t first = 0; first < rows_; first += kEncoderBlock) {
      steps_of([&](Kind kind, size_t feed) {
        buffers_.steps.push_back(
            {kind, first, std::min(kEncoderBlock, rows_ - first), feed});
      });
    }
  };
  if (phase_ == 0) {
    each_block([&](auto add) { add(Kind::kEmbed, 0); });
  } else if (phase_ <= phases()) {
    const bool attends = phase().attention.has_value();
    if (attends) each_block([&](auto add) { add(Kind::kProject, 0); });
    if (attends && notebook_) {
      each_block([&](auto add) { add(Kind::kProjectShown, 0); });
    }
    each_block([&](auto add) {
      if (attends) {
        add(Kind::kAttend, 0);
        add(Kind::kOutput, 0);
      }
      for (size_t feed = 0; feed < phase().feeds.size(); ++feed) {
        add(Kind::kFeedIn, feed);
        add(Kind::kFeedOut, feed);
      }
    });
  } else {
    each_block([&](auto add) {
      add(Kind::kHeadIn, 0);
      add(Kind::kLogits, 0);
    });
  }
  step_ = 0;
  BeginStep();
}

void EncoderPrediction::BeginStep() {
  unit_ = 0;
  buffers_.tiles.clear();
  if (step().kind != Kind::kAttend) return;
  const int64_t end = step().first + step().rows;
  for (int64_t row = step().first; row < end;) {
    const int64_t left = std::min(end, (row / time_ + 1) * time_) - row;
    buffers_.tiles.push_back({row, std::min(shape_.tile_rows, left)});
    row += buffers_.tiles.back().rows;
  }
}

void EncoderPrediction::EndStep() {
  if (++step_ < buffers_.steps.size()) return BeginStep();
  if (phase_ > 0 && phase_ <= phases() && phase().attention) ++map_;
  if (++phase_ <= phases() + 1) return BeginPhase();
  sequence_ += shape_.per_group;
  done_ = sequence_ >= input_.batch;
  if (!done_) BeginGroup();
}

int64_t EncoderPrediction::Units() const {
  if (step().kind != Kind::kAttend) return step().rows;
  return static_cast<int64_t>(buffers_.tiles.size()) * heads();
}

MatrixView EncoderPrediction::Matrix() const {
  switch (step().kind) {
    case Kind::kEmbed:
    case Kind::kAttend:
      break;
    case Kind::kProject:
      return attention().query_key_value;
    case Kind::kProjectShown: {
      MatrixView query_key = attention().query_key_value;
      query_key.outputs = 2 * heads() * head_width();
      return query_key;
    }
    case Kind::kOutput:
      return attention().output;
    case Kind::kFeedIn:
      return phase().feeds[step().feed].in;
    case Kind::kFeedOut:
      return phase().feeds[step().feed].out;
    case Kind::kHeadIn:
      return model_.head_in;
    case Kind::kLogits:
      return model_.logits.head;
  }
  return {};
}

int64_t EncoderPrediction::Factors() const {
  if (step().kind != Kind::kFeedIn) return 1;
  return phase().feeds[step().feed].factor.outputs > 0 ? 2 : 1;
}

int64_t EncoderPrediction::Products() const {
  switch (step().kind) {
    case Kind::kEmbed:
      return 16 * model_.description.width;  // sinusoids take longer than sums
    case Kind::kAttend:
      return shape_.tile_rows * shape_.attention_row;
    default: {
      const MatrixView matrix = Matrix();
      return Factors() * matrix.panel_count() * kPanel * matrix.inputs;
    }
  }
}

absl::StatusOr<bool> EncoderPrediction::Advance() {
  int64_t left = kPieceMultiplyAdds;
  while (!done_) {
    const int64_t cost = std::max(kUnitCost, Products());
    if (cost > left && left < kPieceMultiplyAdds) break;
    int64_t count = 1;
    if (const int64_t panels = Matrix().panel_count();
        panels > 0 && cost > kPieceMultiplyAdds) {
      const int64_t most = std::max<int64_t>(1, kPieceMultiplyAdds / (cost / panels));
      const Part range{panel_, std::min(panels, panel_ + most)};
      Multiply(unit_, 1, range);
      panel_ = range.end < panels ? range.end : 0;
      if (panel_ > 0) break;
      left = 0;
    } else {
      count = std::clamp<int64_t>(left / cost, 1, Units() - unit_);
      Compute(unit_, count);
      left -= std::max(kRunCost, count * cost);
    }
    unit_ += count;
    if (unit_ == Units()) EndStep();
  }
  return done_;
}

void EncoderPrediction::Compute(int64_t first, int64_t count) {
  switch (step().kind) {
    case Kind::kEmbed:
      return Embed(first, count);
    case Kind::kAttend:
      return Attend(first, count);
    default:
      return Multiply(first, count, {0, Matrix().panel_count()});
  }
}

void EncoderPrediction::Multiply(int64_t first, int64_t count, Part panels) {
  const int64_t row = step().first + first;  // row of the group
  const Rows x = From(buffers_.x.rows(), row),
             mixed = From(buffers_.mixed.rows(), first);
  const Rows hidden = From(buffers_.hidden.rows(), first);
  const MatrixView whole = Matrix();
  LinearCall call{.rows = count, .weights = PanelsOf(whole, panels)};
  MatrixView gate;
  NormCall norm{.rows = count, .width = whole.outputs};  // afterwards; no gain: none
  switch (step().kind) {
    case Kind::kProject:
      call.norm = attention().norm;
      [[fallthrough]];
    case Kind::kProjectShown:  // from rows that are not normed
      call.in = x;
      call.out = buffers_.projected.rows();
      break;
    case Kind::kOutput:
      call.in = mixed;
      call.residual = call.out = x;
      break;
    case Kind::kFeedIn: {
      const FeedForwardOp& weights = phase().feeds[step().feed];
      call.in = x;
      call.norm = weights.norm;
      call.act = weights.act;
      if (weights.factor.outputs > 0) {
        gate = PanelsOf(weights.factor, panels);
        call.gate = &gate;
      }
      call.out = hidden;
      break;
    }
    case Kind::kFeedOut:
      call.in = hidden;
      call.residual = call.out = x;
      break;
    case Kind::kHeadIn:
      call.in = x;
      call.out = mixed;
      norm.norm = model_.logits.norm;
      norm.act = model_.head_act();
      break;
    case Kind::kLogits: {
      const int64_t vocab = model_.description.vocab;
      call.in = mixed;
      call.out = {buffers_.output.logits.data() + (sequence_ * time_ + row) * vocab,
                  vocab};
      norm.norm = model_.logits_norm;
      break;
    }
    case Kind::kEmbed:
    case Kind::kAttend:
      break;
  }
  const bool last = panels.end == whole.panel_count();
  norm.in = norm.out = call.out;
  call.out.data += panels.begin * kPanel;
  if (call.residual.data != nullptr) call.residual.data += panels.begin * kPanel;
  team_.Run([&](CpuWorker& k) {
    k.Linear(call);
    if (!last || norm.norm.gain == nullptr) return;
    k.Sync();
    k.Norm(norm);
  });
  multiply_adds_ += count * Factors() * call.weights.outputs * whole.inputs;
  if (!last) return;
  if (step().kind == Kind::kProject) {
    Spread(row, count, buffers_.used, &buffers_.values);
  } else if (step().kind == Kind::kProjectShown) {
    Spread(row, count, buffers_.shown, nullptr);
  }
}

void EncoderPrediction::Embed(int64_t first, int64_t count) {
  const int64_t row = step().first + first;
  for (int64_t r = 0; r < count; ++r) buffers_.positions[r] = (row + r) % time_;
  EmbedCall call = CallOf(model_.embed, model_.logits);
  call.rows = count;
  call.ids = input_.tokens.data() + sequence_ * time_ + row;
  call.positions = buffers_.positions.data();
  call.out = From(buffers_.x.rows(), row);
  team_.Run([&](CpuWorker& k) { k.Embed(call); });
}

void EncoderPrediction::Spread(int64_t first, int64_t count, QueryKey& to,
                               UnsetFloats* values) {
  const int64_t heads = this->heads(), width = head_width(), all = heads * width;
  const int64_t padded_width = Padded(width);
  const Rows projected = buffers_.projected.rows();
  // From the column of the last key to the end of its panel.
  const int64_t rest = shape_.padded_time() - (time_ - 1);
  team_.RunAlone([&](CpuWorker&, int worker) {
    const Share share{worker, shape_.workers};
    for (int64_t r = share.begin(count); r < share.end(count); ++r) {
      const float* const from = projected.row(r);
      const int64_t sequence = (first + r) / time_, t = (first + r) % time_;
      std::copy_n(from, all, to.query.rows().row(first + r));
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t head = sequence * heads + h;
        float* const keys = to.keys.data() + head * shape_.padded_time() * width +
                            t / kPanel * width * kPanel + t % kPanel;
        const float* const key = from + all + h * width;
        for (int64_t i = 0; i < width; ++i) keys[i * kPanel] = key[i];
        if (t + 1 == time_) {
          // Zeros in the columns of the last panel after the last key: the kernel
          // computes with them, the result is unused.
          for (int64_t i = 0; i < width; ++i) {
            std::fill(keys + i * kPanel + 1, keys + i * kPanel + rest, 0.0f);
          }
        }
        if (values == nullptr) continue;
        float* const panels = values->data() + head * padded_width * time_ + t * kPanel;
        const float* const value = from + 2 * all + h * width;
        for (int64_t i = 0; i < width; ++i) {
          panels[i / kPanel * time_ * kPanel + i % kPanel] = value[i];
        }
        float* const last = panels + (padded_width / kPanel - 1) * time_ * kPanel;
        std::fill(last + (width - 1) % kPanel + 1, last + kPanel, 0.0f);
      }
    }
  });
}

void EncoderPrediction::Attend(int64_t first, int64_t count) {
  team_.RunAlone([&](CpuWorker& k, int worker) {
    const Share share{worker, shape_.workers};
    for (int64_t u = share.begin(count); u < share.end(count); ++u) {
      AttendUnit(k, worker, first + u);
    }
  });
  for (int64_t u = first; u < first + count; ++u) {
    multiply_adds_ +=
        buffers_.tiles[u / heads()].rows * time_ * head_width() * (notebook_ ? 3 : 2);
  }
}

void EncoderPrediction::AttendUnit(CpuWorker& k, int worker, int64_t unit) {
  const int64_t heads = this->heads(), width = head_width();
  const Tile& tile = buffers_.tiles[unit / heads];
  const int64_t h = unit % heads, head = tile.first / time_ * heads + h;
  const Rows scores = buffers_.scores[worker].rows();
  const auto show = [&] {
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::copy_n(scores.row(r), time_, MapRow(tile.first + r, h));
    }
  };
  if (notebook_) {
    Weigh(k, buffers_.shown, tile, h, scores);
    show();
  }
  Weigh(k, buffers_.used, tile, h, scores);
  if (input_.maps == AttentionMaps::kUsed) show();
  const Rows mixed = From(buffers_.mixed.rows(), tile.first - step().first);
  k.Linear({.rows = tile.rows,
            .in = scores,
            .weights = OneSlice(width, time_,
                                buffers_.values.data() + head * Padded(width) * time_),
            .out = {mixed.data + h * width, mixed.stride}});
}

void EncoderPrediction::Weigh(CpuWorker& k, const QueryKey& from, const Tile& tile,
                              int64_t h, Rows scores) {
  const EncoderAttention& a = attention();
  const int64_t width = head_width();
  const int64_t sequence = tile.first / time_, position = tile.first % time_;
  const ConstRows queries(const_cast<QueryKey&>(from).query.rows());
  k.Linear({.rows = tile.rows,
            .in = {queries.row(tile.first) + h * width, queries.stride},
            .weights = OneSlice(time_, width,
                                from.keys.data() + (sequence * heads() + h) *
                                                       shape_.padded_time() * width),
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
             .scale = a.scale,
             .slope = a.slopes == nullptr ? 0 : a.slopes[h],
             .causal = input_.mask == PredictMask::kCausal ||
                       (input_.mask == PredictMask::kConfig &&
                        a.settings.sees == Attention::Sees::kPast),
             .mask = mask,
             .scores = scores});
}

float* EncoderPrediction::MapRow(int64_t row, int64_t head) {
  const int64_t sequence = sequence_ + row / time_;
  return buffers_.output.maps[map_].data() +
         ((sequence * heads() + head) * time_ + row % time_) * time_;
}

}  // namespace mnemon
