// SPDX-License-Identifier: MIT
#include "model/blocks/attention/output_gate.h"

#include <algorithm>

namespace mnemon {
namespace {

constexpr Hidden kGate = {.act = Activation::kSigmoid, .gated = true};

}  // namespace

template <class Real>
OutputGate<Real>::OutputGate(const Attention& attention, const std::string& base,
                             int64_t width, const FlatLayout& layout)
    : width_(attention.heads * attention.width) {
  if (!attention.gated) return;
  map_.emplace(layout, base + ".gate", width_, width);
  map_->Reserve();
}

template <class Real>
void OutputGate<Real>::Reserve(const PassStep<Real>& step) {
  if (!map_) return;
  for (Slab<Real>* slab : {&gates_, &gated_}) slab->Reserve(step.rows(), width_);
}

template <class Real>
void OutputGate<Real>::Pack(const PassStep<Real>& step, int worker, int workers) {
  if (map_) map_->Pack(step.weights, step.gradients != nullptr, worker, workers);
}

template <class Real>
void OutputGate<Real>::Project(const PassStep<Real>& step, Part rows,
                               RowsOfReal<const Real> z) {
  if (!map_) return;
  map_->Forward(
      step.weights,
      {.rows = rows.size(), .in = z, .from = {}, .out = gates_.rows(rows.begin)});
}

template <class Real>
void OutputGate<Real>::Forward(Part rows, RowsOfReal<const Real> y) {
  for (int64_t r = rows.begin; map_ && r < rows.end; ++r) {
    HiddenForward<Real>(kGate, width_, gates_.rows(r).data, y.row(r),
                        gated_.rows(r).data);
  }
}

template <class Real>
void OutputGate<Real>::Backward(Part rows, RowsOfReal<const Real> y,
                                RowsOfReal<Real> dy) {
  if (!map_) return;
  AlignedVector<Real> factor;  // y while it is needed, then its gradient
  Grow(factor, WholePanels(width_));
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    std::copy_n(y.row(r), width_, factor.data());
    HiddenBackward<Real>(kGate, width_, dy.row(r), gates_.rows(r).data, factor.data());
    std::copy_n(factor.data(), width_, dy.row(r));
  }
}

template <class Real>
void OutputGate<Real>::ProjectBackward(Part rows, RowsOfReal<Real> dz) {
  if (!map_) return;
  map_->Backward(
      {.rows = rows.size(), .in = gates_.rows(rows.begin), .from = dz, .out = dz});
}

template <class Real>
void OutputGate<Real>::AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> z,
                               GradientJobs<Real>& jobs) {
  if (!map_) return;
  map_->AddJobs(
      {{step.layout(), gates_.rows().data, gates_.rows().stride, z.data, z.stride}},
      step.shards, step.gradients, jobs);
}

template class OutputGate<float>;
template class OutputGate<double>;

}  // namespace mnemon
