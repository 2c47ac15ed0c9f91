// SPDX-License-Identifier: MIT
// A linear map y = W x + b and a layer norm, in training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/partition.h"
#include "model/compute/gradient/flat_layout.h"
#include "model/compute/gradient/gradient_jobs.h"
#include "model/compute/gradient/product.h"
#include "model/compute/gradient/row_operations.h"
#include "model/compute/norm.h"

namespace mnemon {

// Input and output rows of a map.
template <class Real>
struct LinearRows {
  int64_t rows = 0;
  RowsOfReal<const Real> in;
  RowsOfReal<const Real> from;  // added to the output; null data: nothing
  bool relu = false;
  RowsOfReal<Real> out;
};

template <class Real>
class LinearMap {
 public:
  // W [N, K] at `base`.weight and, if the layout has it, b [N] at `base`.bias.
  LinearMap(const FlatLayout& layout, const std::string& base, int64_t outputs,
            int64_t inputs);
  // W [N, K] at `weight`, no bias.
  static LinearMap Tied(int64_t weight, int64_t outputs, int64_t inputs);

  // Must precede the first Pack. May throw std::bad_alloc.
  void Reserve();
  // Packs the weights: part `worker` of `workers`, which may run at once. Backward
  // needs `transposed`.
  void Pack(const Real* weights, bool transposed, int worker, int workers);

  // out = [from +] in W^T + b. `weights` are those that were packed.
  void Forward(const Real* weights, const LinearRows<Real>& rows) const {
    Forward(weights, rows, {0, outputs_});
  }
  // in: dy, out: dx = [from +] dy W.
  void Backward(const LinearRows<Real>& rows) const { Backward(rows, {0, inputs_}); }
  // Computes only these columns of `out`, which start at a panel.
  void Forward(const Real* weights, const LinearRows<Real>& rows, Part columns) const;
  void Backward(const LinearRows<Real>& rows, Part columns) const;

  // Adds jobs for dW and db from rows dy and x.
  void AddJobs(std::vector<RowPairs<Real>> parts, const Shards& shards, Real* gradients,
               GradientJobs<Real>& jobs) const;

  // Offsets in the flat buffer; bias -1: none.
  int64_t weight() const { return weight_; }
  int64_t bias() const { return bias_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }

 private:
  LinearMap(int64_t weight, int64_t bias, int64_t outputs, int64_t inputs)
      : weight_(weight), bias_(bias), outputs_(outputs), inputs_(inputs) {}

  int64_t weight_, bias_;
  int64_t outputs_, inputs_;
  PackedOperand<Real> forward_, backward_;
};

template <class Real>
class NormMap {
 public:
  // REQUIRES: norm.applies().
  NormMap(const FlatLayout& layout, const std::string& base, int64_t width,
          const Norm& norm = {});

  // NormPass for `rows` rows of x.
  NormPass<Real> Pass(const Real* weights, int64_t rows, RowsOfReal<const Real> x,
                      Real* moments) const;
  using Part = typename VectorGradientCall<Real>::Part;
  void AddJobs(std::vector<Part> rows, const Shards& shards, Real* gradients,
               GradientJobs<Real>& jobs) const;

  // Offsets in the flat buffer; bias -1: none.
  int64_t gain() const { return gain_; }
  int64_t bias() const { return bias_; }

 private:
  Norm norm_;
  int64_t gain_, bias_, width_;
};

// Sums over rows that come from a norm, y = W (xhat gain + bias) + b. They suffice for
// all gradients if x itself needs none.
template <class Real>
struct NormedSums {
  Real* outer = nullptr;  // sum of dy xhat^T [N, K]
  Real* dy = nullptr;     // sum of dy [N]
};
// Adds the resulting gradients of W, b, gain and bias to `gradients`. REQUIRES: a layer
// norm whose gain is its weight.
template <class Real>
void AddNormed(const NormedSums<Real>& sums, const LinearMap<Real>& map,
               const NormMap<Real>& norm, const Real* weights, Real* gradients);

}  // namespace mnemon
