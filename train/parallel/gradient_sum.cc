// SPDX-License-Identifier: MIT
#include "train/parallel/gradient_sum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/GradMode.h>

#include "base/partition.h"
#include "train/parallel/flat_operations.h"

namespace mnemon {

GradientSum::GradientSum(std::vector<at::Tensor> shards)
    : shards_(std::move(shards)),
      squares_(shards_[0].is_cpu() ? (shards_[0].numel() + kFlatBlock - 1) / kFlatBlock
                                   : 1) {}

void GradientSum::Add(int shards, std::span<const int64_t> blocks, int worker,
                      int workers) {
  if (!shards_[0].is_cpu()) {
    if (worker > 0) return;
    c10::AutoGradMode no_graph(false);
    for (int s = 1; s < shards; ++s) shards_[0].add_(shards_[s]);
    const double norm = at::linalg_vector_norm(shards_[0], 2).item<double>();
    squares_[0] = norm * norm;
    return;
  }
  std::vector<float*> all;
  for (int s = 0; s < shards; ++s) all.push_back(shards_[s].data_ptr<float>());
  const int64_t size = shards_[0].numel();
  const Part own = PartOf(static_cast<int64_t>(blocks.size()), worker, workers);
  for (const int64_t b : blocks.subspan(own.begin, own.size())) {
    squares_[b] = AddShards(all, b * kFlatBlock, std::min(size, (b + 1) * kFlatBlock));
  }
}

double GradientSum::Norm() const {
  return std::sqrt(std::accumulate(squares_.begin(), squares_.end(), 0.0));
}

double ClipScale(double norm, double limit) {
  return limit > 0 && norm + 1e-6 > limit ? limit / (norm + 1e-6) : 1.0;
}

}  // namespace mnemon
