// SPDX-License-Identifier: MIT
#include "model/blocks/fast_weights/gradient.h"

#include <algorithm>
#include <utility>

#include "model/blocks/fast_weights/feature_map_gradient.h"

namespace mnemon {

template <class Real>
FastWeightBlock<Real>::FastWeightBlock(
    const FastWeights& fast, const BlockPlace& place, const FlatLayout& layout,
    std::shared_ptr<FastWeightGradients<Real>> gradients)
    : site_(place.site),
      width_(place.width),
      heads_(fast.heads),
      head_width_(fast.width),
      map_(fast.map),
      normalised_(fast.normalised),
      norm_(layout, place),
      query_(layout, place.base + ".query", heads_ * head_width_, width_),
      key_(layout, place.base + ".key", heads_ * head_width_, width_),
      value_(layout, place.base + ".value", heads_ * head_width_, width_),
      output_(layout, place.base + ".output", width_, heads_ * head_width_),
      end_(layout, place),
      gradients_(std::move(gradients)) {
  for (LinearMap<Real>* map : {&query_, &key_, &value_, &output_}) map->Reserve();
  if (fast.rule == UpdateRule::kSum) return;
  gate_.emplace(layout, place.base + ".gate", heads_, width_);
  gate_->Reserve();
}

template <class Real>
DeltaShape FastWeightBlock<Real>::Shape(const PassStep<Real>& step) const {
  return {.time = step.time,
          .width = head_width_,
          .map = map_,
          .delta = gate_.has_value(),
          .normalised = normalised_};
}

template <class Real>
void FastWeightBlock<Real>::Reserve(const PassStep<Real>& step,
                                    std::span<const CarryEntry> carry) {
  carry_ = carry;
  const int64_t rows = step.rows();
  FastWeightGradients<Real>& g = *gradients_;
  for (Slab<Real>* slab :
       {&queries_, &keys_, &values_, &read_, &g.dread, &g.dquery, &g.dkey, &g.dvalue}) {
    slab->Reserve(rows, heads_ * head_width_);
  }
  norm_.Reserve(rows);
  if (norm_.there()) g.dnormed.Reserve(rows, width_);
  end_.Reserve(rows);
  if (end_.needs_room(step.dropout.has_value())) g.dout.Reserve(rows, width_);
  if (gate_) {
    gates_.Reserve(rows, heads_);
    g.dgate.Reserve(rows, heads_);
  }
  const DeltaShape shape = Shape(step);
  Grow(states_, step.sequences * heads_ * (shape.chunks() + 1) * shape.state_size());
}

template <class Real>
void FastWeightBlock<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  const bool backward = step.gradients != nullptr;
  for (LinearMap<Real>* map : {&query_, &key_, &value_, &output_}) {
    map->Pack(step.weights, backward, worker, workers);
  }
  if (gate_) gate_->Pack(step.weights, backward, worker, workers);
}

template <class Real>
Real* FastWeightBlock<Real>::State(const DeltaShape& shape, int64_t sequence,
                                   int64_t head, int64_t chunk) {
  const int64_t index = (sequence * heads_ + head) * (shape.chunks() + 1) + chunk;
  return states_.data() + index * shape.state_size();
}

template <class Real>
void FastWeightBlock<Real>::SetFirstState(const DeltaShape& shape, int64_t sequence,
                                          int64_t head) {
  Real* const state = State(shape, sequence, head, 0);
  std::fill_n(state, shape.state_size(), Real{0});
  if (carry_.empty()) return;
  // Converted from W [B, H, K, N].
  const int64_t features = shape.features(), stride = shape.state_stride();
  const int64_t at = sequence * heads_ + head;
  const Real* const w = carry_[0].values.data() + at * head_width_ * features;
  for (int64_t k = 0; k < head_width_; ++k) {
    for (int64_t n = 0; n < features; ++n) state[n * stride + k] = w[k * features + n];
  }
  if (!normalised_) return;
  std::copy_n(carry_[1].values.data() + at * features, features,
              state + features * stride);
}

template <class Real>
DeltaHead<Real> FastWeightBlock<Real>::Head(const PassStep<Real>& step,
                                            int64_t sequence, int64_t head) {
  const int64_t row = sequence * step.time, column = head * head_width_;
  DeltaHead<Real> out = {.shape = Shape(step),
                         .query = queries_.rows(row, column),
                         .key = keys_.rows(row, column),
                         .value = values_.rows(row, column),
                         .beta = {},
                         .out = read_.rows(row, column),
                         .states = State(Shape(step), sequence, head, 0)};
  if (gate_) out.beta = gates_.rows(row, head);
  return out;
}

template <class Real>
void FastWeightBlock<Real>::Project(const PassStep<Real>& step, Part rows, Part,
                                    RowsOfReal<const Real> x) {
  const int64_t first = rows.begin;
  norm_.Forward(step.weights, rows, x);
  const RowsOfReal<const Real> z = norm_.rows(first, x);
  const auto project = [&](const LinearMap<Real>& map, Slab<Real>& to) {
    map.Forward(step.weights,
                {.rows = rows.size(), .in = z, .from = {}, .out = to.rows(first)});
  };
  project(query_, queries_);
  project(key_, keys_);
  project(value_, values_);
  if (!gate_) return;
  project(*gate_, gates_);
  for (int64_t r = first; r < rows.end; ++r) {
    SigmoidForward(heads_, gates_.rows(r).data);
  }
}

template <class Real>
void FastWeightBlock<Real>::Mix(const PassStep<Real>& step, Part heads,
                                PassScratch<Real>& scratch) {
  auto& own = scratch.template Of<DeltaScratch<Real>>();
  for (int64_t i = heads.begin; i < heads.end; ++i) {
    SetFirstState(Shape(step), i / heads_, i % heads_);
    DeltaForward(Head(step, i / heads_, i % heads_), own);
  }
}

template <class Real>
void FastWeightBlock<Real>::Finish(const PassStep<Real>& step, Part rows,
                                   RowsOfReal<const Real> x, RowsOfReal<Real> out,
                                   PassScratch<Real>& scratch) {
  end_.Forward(step, Team::Alone(), output_,
               {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows,
               read_.rows(), x, out, scratch);
}

template <class Real>
void FastWeightBlock<Real>::FinishBackward(const PassStep<Real>& step, Part rows,
                                           RowsOfReal<const Real> dout,
                                           PassScratch<Real>& scratch) {
  end_.Backward(step, Team::Alone(), output_,
                {.layer = site_, .kind = DropoutKind::kAttentionOutput}, rows, dout,
                gradients_->dout, gradients_->dread.rows(), scratch);
}

template <class Real>
void FastWeightBlock<Real>::MixBackward(const PassStep<Real>& step, Part heads,
                                        PassScratch<Real>& scratch) {
  FastWeightGradients<Real>& g = *gradients_;
  auto& own = scratch.template Of<DeltaScratch<Real>>();
  for (int64_t i = heads.begin; i < heads.end; ++i) {
    const int64_t b = i / heads_, h = i % heads_;
    const int64_t row = b * step.time, column = h * head_width_;
    DeltaGradients<Real> to = {.dout = g.dread.rows(row, column),
                               .dquery = g.dquery.rows(row, column),
                               .dkey = g.dkey.rows(row, column),
                               .dvalue = g.dvalue.rows(row, column),
                               .dbeta = {}};
    if (gate_) to.dbeta = g.dgate.rows(row, h);
    DeltaBackward(Head(step, b, h), to, own);
  }
}

template <class Real>
void FastWeightBlock<Real>::ProjectBackward(const PassStep<Real>& step, Part rows,
                                            RowsOfReal<const Real> x,
                                            RowsOfReal<const Real> dout,
                                            RowsOfReal<Real> dx) {
  FastWeightGradients<Real>& g = *gradients_;
  const int64_t first = rows.begin;
  // Without a norm, the gradient that goes around the block is added at once.
  const bool normed = norm_.there();
  const RowsOfReal<Real> to = normed ? g.dnormed.rows(first) : dx.from(first);
  const auto add = [&](const LinearMap<Real>& map, Slab<Real>& dy,
                       RowsOfReal<const Real> from) {
    map.Backward({.rows = rows.size(), .in = dy.rows(first), .from = from, .out = to});
  };
  add(query_, g.dquery,
      normed ? RowsOfReal<const Real>{} : end_.OfSum(dout).from(first));
  add(key_, g.dkey, to);
  add(value_, g.dvalue, to);
  if (gate_) {
    for (int64_t r = first; r < rows.end; ++r) {
      SigmoidBackward<Real>(heads_, gates_.rows(r).data, g.dgate.rows(r).data);
    }
    add(*gate_, g.dgate, to);
  }
  if (normed) {
    norm_.Backward(step.weights, rows, x, g.dnormed.rows(), end_.OfSum(dout), dx);
  }
}

template <class Real>
void FastWeightBlock<Real>::AddJobs(const PassStep<Real>& step,
                                    RowsOfReal<const Real> x,
                                    RowsOfReal<const Real> dout,
                                    GradientJobs<Real>& jobs) {
  FastWeightGradients<Real>& g = *gradients_;
  const auto add = [&](const LinearMap<Real>& map, RowsOfReal<const Real> dy,
                       RowsOfReal<const Real> in) {
    map.AddJobs({{step.layout(), dy.data, dy.stride, in.data, in.stride}}, step.shards,
                step.gradients, jobs);
  };
  add(output_, end_.OfMap(step, dout, g.dout), read_.rows());
  end_.AddJobs(step, dout, jobs);
  const RowsOfReal<const Real> z = norm_.rows(0, x);
  add(query_, g.dquery.rows(), z);
  add(key_, g.dkey.rows(), z);
  add(value_, g.dvalue.rows(), z);
  if (gate_) add(*gate_, g.dgate.rows(), z);
  if (norm_.there()) norm_.AddJobs(step, x, g.dnormed.rows(), jobs);
}

template <class Real>
std::vector<typename PassCarry<Real>::Entry> FastWeightBlock<Real>::Continue(
    const PassStep<Real>& step, RowsOfReal<const Real>) {
  const DeltaShape shape = Shape(step);
  const int64_t features = shape.features(), stride = shape.state_stride();
  const int64_t heads = step.sequences * heads_;
  CarryEntry w = {.count = 1, .values = {}}, z = {.count = 1, .values = {}};
  w.values.resize(static_cast<size_t>(heads * head_width_ * features));
  z.values.resize(static_cast<size_t>(normalised_ ? heads * features : 0));
  for (int64_t i = 0; i < heads; ++i) {
    const Real* const state = State(shape, i / heads_, i % heads_, shape.chunks());
    Real* const to = w.values.data() + i * head_width_ * features;
    for (int64_t k = 0; k < head_width_; ++k) {
      for (int64_t n = 0; n < features; ++n) {
        to[k * features + n] = state[n * stride + k];
      }
    }
    if (normalised_) {
      std::copy_n(state + features * stride, features, z.values.data() + i * features);
    }
  }
  std::vector<CarryEntry> entries;
  entries.push_back(std::move(w));
  if (normalised_) entries.push_back(std::move(z));
  return entries;
}

template class FastWeightBlock<float>;
template class FastWeightBlock<double>;

}  // namespace mnemon
