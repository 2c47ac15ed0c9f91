// SPDX-License-Identifier: MIT
#include "model/compute/gradient/linear.h"

#include <utility>

#include "base/partition.h"
#include "model/compute/tensor_names.h"

namespace mnemon {
namespace {

template <class Real>
void Apply(const LinearRows<Real>& rows, const PackedOperand<Real>& matrix,
           const Real* bias, Part columns) {
  if (columns.size() == 0) return;
  const auto from = [&](auto* row) { return row ? row + columns.begin : nullptr; };
  RightOperand<Real> b = matrix.view();
  b.data += columns.begin / kColumnPanel * b.panel;
  Multiply(ProductCall<Real>{.rows = rows.rows,
                             .columns = columns.size(),
                             .depth = matrix.depth(),
                             .a = {rows.in.data, rows.in.stride, 1},
                             .b = b,
                             .from = from(rows.from.data),
                             .from_stride = rows.from.stride,
                             .bias = from(bias),
                             .relu = rows.relu,
                             .out = from(rows.out.data),
                             .out_stride = rows.out.stride});
}

}  // namespace

template <class Real>
LinearMap<Real>::LinearMap(const FlatLayout& layout, const std::string& base,
                           int64_t outputs, int64_t inputs)
    : LinearMap(layout.At(names::Weight(base)), layout.Find(names::Bias(base)), outputs,
                inputs) {}

template <class Real>
LinearMap<Real> LinearMap<Real>::Tied(int64_t weight, int64_t outputs, int64_t inputs) {
  return LinearMap(weight, -1, outputs, inputs);
}

template <class Real>
void LinearMap<Real>::Reserve() {
  forward_.Reserve(inputs_, outputs_);
  backward_.Reserve(outputs_, inputs_);
}

template <class Real>
void LinearMap<Real>::Pack(const Real* weights, bool transposed, int worker,
                           int workers) {
  const Real* const matrix = weights + weight_;
  const Part forward = PartOf(forward_.panels(), worker, workers);
  for (int64_t p = forward.begin; p < forward.end; ++p) {
    forward_.Fill(p, matrix, 1, inputs_);
  }
  if (!transposed) return;
  const Part backward = PartOf(backward_.panels(), worker, workers);
  for (int64_t p = backward.begin; p < backward.end; ++p) {
    backward_.Fill(p, matrix, inputs_, 1);
  }
}

template <class Real>
void LinearMap<Real>::Forward(const Real* weights, const LinearRows<Real>& rows,
                              Part columns) const {
  Apply(rows, forward_, bias_ < 0 ? nullptr : weights + bias_, columns);
}

template <class Real>
void LinearMap<Real>::Backward(const LinearRows<Real>& rows, Part columns) const {
  Apply<Real>(rows, backward_, nullptr, columns);
}

template <class Real>
void LinearMap<Real>::AddJobs(std::vector<RowPairs<Real>> parts, const Shards& shards,
                              Real* gradients, GradientJobs<Real>& jobs) const {
  if (bias_ >= 0) {
    VectorGradientCall<Real> bias = {
        .width = outputs_, .parts = {}, .shards = shards, .bias = gradients + bias_};
    for (const RowPairs<Real>& part : parts) {
      bias.parts.push_back(
          {.layout = part.layout, .dz = {part.dy, part.dy_stride}, .x = {}});
    }
    jobs.Add(std::move(bias));
  }
  jobs.Add(WeightGradientCall<Real>{.outputs = outputs_,
                                    .inputs = inputs_,
                                    .parts = std::move(parts),
                                    .shards = shards,
                                    .out = gradients + weight_});
}

template <class Real>
NormMap<Real>::NormMap(const FlatLayout& layout, const std::string& base, int64_t width,
                       const Norm& norm)
    : norm_(norm),
      gain_(layout.At(names::Weight(base))),
      bias_(norm.biased() ? layout.At(names::Bias(base)) : -1),
      width_(width) {}

template <class Real>
NormPass<Real> NormMap<Real>::Pass(const Real* weights, int64_t rows,
                                   RowsOfReal<const Real> x, Real* moments) const {
  return {.rows = rows,
          .width = width_,
          .x = x,
          .centred = norm_.kind == Norm::Kind::kLayer,
          .eps = static_cast<Real>(norm_.eps),
          .gain = weights + gain_,
          .more = norm_.one_plus ? Real{1} : Real{0},
          .bias = bias_ < 0 ? nullptr : weights + bias_,
          .moments = moments,
          .standard = {}};
}

template <class Real>
void NormMap<Real>::AddJobs(std::vector<Part> rows, const Shards& shards,
                            Real* gradients, GradientJobs<Real>& jobs) const {
  jobs.Add(VectorGradientCall<Real>{.width = width_,
                                    .parts = std::move(rows),
                                    .shards = shards,
                                    .gain = gradients + gain_,
                                    .bias = bias_ < 0 ? nullptr : gradients + bias_});
}

template <class Real>
void AddNormed(const NormedSums<Real>& sums, const LinearMap<Real>& map,
               const NormMap<Real>& norm, const Real* weights, Real* gradients) {
  const int64_t inputs = map.inputs();
  const Real* const gain = weights + norm.gain();
  const Real* const bias = weights + norm.bias();
  Real* const dgain = gradients + norm.gain();
  Real* const dbias = gradients + norm.bias();
  for (int64_t n = 0; n < map.outputs(); ++n) {
    const Real* const w = weights + map.weight() + n * inputs;
    const Real* const outer = sums.outer + n * inputs;
    Real* const dw = gradients + map.weight() + n * inputs;
    const Real dy = sums.dy[n];
    for (int64_t k = 0; k < inputs; ++k) {
      dw[k] += outer[k] * gain[k] + dy * bias[k];
      dgain[k] += w[k] * outer[k];
      dbias[k] += w[k] * dy;
    }
    if (map.bias() >= 0) gradients[map.bias() + n] += dy;
  }
}

template class LinearMap<float>;
template class LinearMap<double>;
template class NormMap<float>;
template class NormMap<double>;
template void AddNormed(const NormedSums<float>&, const LinearMap<float>&,
                        const NormMap<float>&, const float*, float*);
template void AddNormed(const NormedSums<double>&, const LinearMap<double>&,
                        const NormMap<double>&, const double*, double*);

}  // namespace mnemon
