// SPDX-License-Identifier: MIT
// The norm of a block's input in training; optional.
#pragma once

#include <cstdint>
#include <optional>

#include "model/blocks/pass_step.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/slab.h"

namespace mnemon {

template <class Real>
class InputNorm {
 public:
  InputNorm(const FlatLayout& layout, const BlockPlace& place) : width_(place.width) {
    if (place.norm.applies()) {
      map_.emplace(layout, place.base + ".norm", width_, place.norm);
    }
  }

  bool there() const { return map_.has_value(); }
  // REQUIRES: there().
  const NormMap<Real>& map() const { return *map_; }

  // May throw std::bad_alloc.
  void Reserve(int64_t rows) {
    if (!map_) return;
    normed_.Reserve(rows, width_);
    moments_.resize(static_cast<size_t>(2 * rows));
  }

  // Norms some rows of x.
  void Forward(const Real* weights, Part rows, RowsOfReal<const Real> x) {
    if (map_) NormForward(Pass(weights, rows, x), normed_.rows(rows.begin));
  }
  // Input of the block from row `first` on: the normed rows, or x itself.
  RowsOfReal<const Real> rows(int64_t first, RowsOfReal<const Real> x) {
    return map_ ? RowsOfReal<const Real>(normed_.rows(first)) : x.from(first);
  }

  // Computes dx of some rows from dz, the gradient of the block's input, and dout,
  // which goes around the block.
  void Backward(const Real* weights, Part rows, RowsOfReal<const Real> x,
                RowsOfReal<const Real> dz, RowsOfReal<const Real> dout,
                RowsOfReal<Real> dx) {
    if (map_) {
      NormBackward<Real>(Pass(weights, rows, x), dz.from(rows.begin),
                         dout.from(rows.begin), dx.from(rows.begin));
      return;
    }
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      AddScaled<Real>(width_, 1, dz.row(r), dout.row(r), dx.row(r));
    }
  }

  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> x,
               RowsOfReal<const Real> dz, GradientJobs<Real>& jobs) const {
    AddJobs(step, step.layout(), 0, x, dz, jobs);
  }
  // For rows of a layout, from row `first` on.
  void AddJobs(const PassStep<Real>& step, const RowLayout& layout, int64_t first,
               RowsOfReal<const Real> x, RowsOfReal<const Real> dz,
               GradientJobs<Real>& jobs) const {
    if (!map_) return;
    map_->AddJobs({{.layout = layout,
                    .dz = dz.from(first),
                    .x = x.from(first),
                    .moments = moments_.data() + 2 * first}},
                  step.shards, step.gradients, jobs);
  }

 private:
  NormPass<Real> Pass(const Real* weights, Part rows, RowsOfReal<const Real> x) {
    return map_->Pass(weights, rows.size(), x.from(rows.begin),
                      moments_.data() + 2 * rows.begin);
  }

  const int64_t width_;
  std::optional<NormMap<Real>> map_;
  Slab<Real> normed_;  // [rows, D]
  AlignedVector<Real> moments_;
};

}  // namespace mnemon
