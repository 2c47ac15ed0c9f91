// SPDX-License-Identifier: MIT
// The gate on the output of attention, in training. W_o reads
//   y * sigmoid(W_g z + b_g)
// with z the inputs of the block; without a gate, y.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/blocks/attention/settings.h"
#include "model/blocks/pass_step.h"
#include "model/compute/gradient/flat_layout.h"
#include "model/compute/gradient/linear.h"
#include "model/compute/gradient/row_operations.h"
#include "model/compute/gradient/slab.h"

namespace mnemon {

template <class Real>
class OutputGate {
 public:
  // Gate of the block named `base` in a model of `width`.
  OutputGate(const Attention& attention, const std::string& base, int64_t width,
             const FlatLayout& layout);

  void Reserve(const PassStep<Real>& step);
  void Pack(const PassStep<Real>& step, int worker, int workers);
  // Computes W_g z + b_g for some rows; `z` starts with the first of them.
  void Project(const PassStep<Real>& step, Part rows, RowsOfReal<const Real> z);
  void Forward(Part rows, RowsOfReal<const Real> y);
  // The input of W_o.
  RowsOfReal<const Real> Outputs(RowsOfReal<const Real> y) {
    return map_ ? RowsOfReal<const Real>(gated_.rows()) : y;
  }
  // Turns gradients of W_o's input into those of y.
  void Backward(Part rows, RowsOfReal<const Real> y, RowsOfReal<Real> dy);
  // Adds to the gradients of z, which begin with the first row.
  void ProjectBackward(Part rows, RowsOfReal<Real> dz);
  void AddJobs(const PassStep<Real>& step, RowsOfReal<const Real> z,
               GradientJobs<Real>& jobs);

 private:
  const int64_t width_;  // H K
  std::optional<LinearMap<Real>> map_;
  Slab<Real> gates_;  // [rows, H K]; they become their own gradients
  Slab<Real> gated_;  // [rows, H K]
};

}  // namespace mnemon
