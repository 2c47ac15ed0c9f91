// SPDX-License-Identifier: MIT
#include "model/blocks/attention/turn_gradient.h"

#include <algorithm>
#include <utility>

#include "model/compute/functions.h"

namespace mnemon {

template <class Real>
RotaryRows<Real>::RotaryRows(const Rotary& rotary)
    : frequencies_(FrequenciesOf(rotary)), magnitude_(rotary.magnitude) {}

template <class Real>
void RotaryRows<Real>::Reserve(int64_t first, int64_t time) {
  if (first == first_ && time <= time_) return;
  const auto half = static_cast<int64_t>(frequencies_.size());
  cosines_.Reserve(time, half);
  sines_.Reserve(time, half);
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(first + t) * frequencies_[static_cast<size_t>(i)];
      *cosines_.rows(t, i).data = static_cast<Real>(numerics::Cos(angle) * magnitude_);
      *sines_.rows(t, i).data = static_cast<Real>(numerics::Sin(angle) * magnitude_);
    }
  }
  first_ = first;
  time_ = time;
}

template <class Real>
void RotaryRows<Real>::Turn(int64_t t, bool back, Real* head) const {
  const auto half = static_cast<int64_t>(frequencies_.size());
  const Real* const cosines = cosines_.row(t);
  const Real* const sines = sines_.row(t);
  const Real sign = back ? Real{-1} : Real{1};
  for (int64_t i = 0; i < half; ++i) {
    const Real x = head[i], y = head[half + i], sine = sign * sines[i];
    head[i] = x * cosines[i] - y * sine;
    head[half + i] = y * cosines[i] + x * sine;
  }
}

template <class Real>
HeadTurn<Real>::HeadTurn(const Attention& attention, const Norm& norm,
                         const std::string& norm_base, int64_t heads,
                         const FlatLayout& layout)
    : heads_(heads), width_(attention.width) {
  if (norm.applies()) norm_.emplace(layout, norm_base, width_, norm);
  if (attention.rotary() != nullptr) rotary_.emplace(*attention.rotary());
}

template <class Real>
void HeadTurn<Real>::Reserve(const PassStep<Real>& step) {
  if (rotary_) rotary_->Reserve(step.position, step.time);
  if (!norm_) return;
  before_.Reserve(step.rows(), heads_ * width_);
  dnormed_.Reserve(step.rows(), heads_ * width_);
  moments_.Reserve(heads_, 2 * step.rows());
}

template <class Real>
NormPass<Real> HeadTurn<Real>::Pass(const PassStep<Real>& step, int64_t r, int64_t h) {
  return norm_->Pass(step.weights, 1, before_.rows(r, h * width_),
                     moments_.rows(h, 2 * r).data);
}

template <class Real>
void HeadTurn<Real>::Forward(const PassStep<Real>& step, Part rows,
                             RowsOfReal<Real> heads) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    Real* const row = heads.row(r);
    if (norm_) std::copy_n(row, heads_ * width_, before_.rows(r).data);
    for (int64_t h = 0; h < heads_; ++h) {
      Real* const head = row + h * width_;
      if (norm_) NormForward(Pass(step, r, h), RowsOfReal<Real>{head, width_});
      if (rotary_) rotary_->Turn(step.PositionOf(r), /*back=*/false, head);
    }
  }
}

template <class Real>
void HeadTurn<Real>::Backward(const PassStep<Real>& step, Part rows,
                              RowsOfReal<Real> gradient) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    Real* const row = gradient.row(r);
    for (int64_t h = 0; h < heads_; ++h) {
      Real* const head = row + h * width_;
      if (rotary_) rotary_->Turn(step.PositionOf(r), /*back=*/true, head);
      if (!norm_) continue;
      const RowsOfReal<Real> dnormed = dnormed_.rows(r, h * width_);
      std::copy_n(head, width_, dnormed.data);
      NormBackward<Real>(Pass(step, r, h), dnormed, {}, {head, width_});
    }
  }
}

template <class Real>
void HeadTurn<Real>::AddJobs(const PassStep<Real>& step, GradientJobs<Real>& jobs) {
  if (!norm_) return;
  std::vector<typename VectorGradientCall<Real>::Part> parts;
  for (int64_t h = 0; h < heads_; ++h) {
    parts.push_back({.layout = step.layout(),
                     .dz = dnormed_.rows(0, h * width_),
                     .x = before_.rows(0, h * width_),
                     .moments = moments_.rows(h).data});
  }
  norm_->AddJobs(std::move(parts), step.shards, step.gradients, jobs);
}

template class RotaryRows<float>;
template class RotaryRows<double>;
template class HeadTurn<float>;
template class HeadTurn<double>;

}  // namespace mnemon
