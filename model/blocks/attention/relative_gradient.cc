// SPDX-License-Identifier: MIT
#include "model/blocks/attention/relative_gradient.h"

#include <algorithm>
#include <utility>

namespace mnemon {

template <class Real>
RelativeTables<Real>::RelativeTables(const Attention& attention,
                                     const std::string& base, int64_t end,
                                     const FlatLayout& layout)
    : count_(attention.heads),
      width_(attention.width),
      end_(end),
      rows_(attention.relative()->rows),
      key_(layout.At(base + ".relative_key")),
      bias_(layout.Find(base + ".relative_bias")),
      query_bias_(layout.At(base + ".query_bias")),
      first_(end),
      heads_(static_cast<size_t>(attention.heads)) {}

template <class Real>
void RelativeTables<Real>::Load(const Real* weights, Part heads, Part rows) {
  for (int64_t h = heads.begin; h < heads.end; ++h) {
    heads_[h].Load(weights + key_, tied() ? nullptr : weights + bias_,
                   weights + query_bias_, count_, h, width_, rows);
  }
}

template <class Real>
void RelativeTables<Real>::BeginSums(Part rows, Real* gradients) {
  const int64_t now = std::max<int64_t>(0, rows.begin), before = std::min(first_, now);
  const auto clear = [&](int64_t table, int64_t width) {
    std::fill(gradients + table + before * width, gradients + table + now * width,
              Real{0});
  };
  clear(key_, count_ * width_);
  if (!tied()) clear(bias_, count_);
  first_ = before;
}

template <class Real>
void RelativeTables<Real>::AddJobs(const Gradients& of, Part rows, const Shards& shards,
                                   int64_t sequences, Real* gradients,
                                   GradientJobs<Real>& jobs) const {
  jobs.Add(VectorGradientCall<Real>{
      .width = count_ * width_,
      .parts = {{.layout = of.queries, .dz = of.dquery_bias, .x = {}}},
      .shards = shards,
      .bias = gradients + query_bias_});
  if (rows.size() == 0) return;
  // Row by row of the tables, over sequences.
  const int64_t missing = std::max<int64_t>(0, -rows.begin);
  const auto add = [&](RowsOfReal<const Real> from, int64_t width, int64_t table) {
    const RowsOfReal<const Real> of_sequences = {from.row(missing),
                                                 from.stride * rows.size()};
    jobs.Add(VectorGradientCall<Real>{
        .width = width,
        .parts = {{.layout = {.sequences = sequences, .each = 1},
                   .dz = of_sequences,
                   .x = {}}},
        .shards = shards,
        .bias = gradients + table + (rows.begin + missing) * width,
        .vectors = rows.size() - missing,
        .from = from.stride,
        .to = width});
  };
  add(of.dkeys, count_ * width_, key_);
  if (!tied()) add(of.dbiases, count_, bias_);
}

template <class Real>
std::vector<Part> RelativeTables<Real>::UnusedGradients() const {
  std::vector<Part> unused;
  const auto add = [&](int64_t table, int64_t width) {
    unused.push_back({table, table + first_ * width});
    unused.push_back({table + end_ * width, table + rows_ * width});
  };
  add(key_, count_ * width_);
  if (!tied()) add(bias_, count_);
  return unused;
}

template class RelativeTables<float>;
template class RelativeTables<double>;

}  // namespace mnemon
