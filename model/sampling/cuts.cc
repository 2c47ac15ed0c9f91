// SPDX-License-Identifier: MIT
#include "model/sampling/cuts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mnemon {
namespace {

double Mass(const Distribution& all, const std::vector<int32_t>& kept) {
  double total = 0;
  for (const int32_t id : kept) total += all.weight[id];
  return total;
}

// Keeps the shortest beginning of `kept` whose weight reaches p * total.
void KeepUntil(const Distribution& all, double p, double total,
               std::vector<int32_t>& kept) {
  double sum = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    sum += all.weight[kept[i]];
    if (sum < p * total) continue;
    kept.resize(i + 1);
    return;
  }
}

auto ByLogit(const Distribution& all) {
  return [&all](int32_t a, int32_t b) {
    return all.logit[a] != all.logit[b] ? all.logit[a] > all.logit[b] : a < b;
  };
}

}  // namespace

void CutTopK(const Distribution& all, int32_t k, std::vector<int32_t>& kept) {
  if (static_cast<size_t>(k) >= kept.size()) return;
  std::nth_element(kept.begin(), kept.begin() + (k - 1), kept.end(), ByLogit(all));
  kept.resize(static_cast<size_t>(k));
}

void CutTypical(const Distribution& all, double p, std::vector<int32_t>& kept) {
  // What has no probability has no information either.
  std::erase_if(kept, [&](int32_t id) { return all.weight[id] == 0; });
  const double total = Mass(all, kept);
  const auto information = [&](int32_t id) {
    return std::log(total) - std::log(all.weight[id]);
  };
  double entropy = 0;
  for (const int32_t id : kept) entropy += all.weight[id] / total * information(id);
  std::vector<std::pair<double, int32_t>> gaps;
  gaps.reserve(kept.size());
  for (const int32_t id : kept) {
    gaps.emplace_back(std::abs(information(id) - entropy), id);
  }
  std::sort(gaps.begin(), gaps.end());
  for (size_t i = 0; i < gaps.size(); ++i) kept[i] = gaps[i].second;
  KeepUntil(all, p, total, kept);
}

void CutTopP(const Distribution& all, double p, std::vector<int32_t>& kept) {
  std::sort(kept.begin(), kept.end(), ByLogit(all));
  KeepUntil(all, p, Mass(all, kept), kept);
}

void CutMinP(const Distribution& all, double share, std::vector<int32_t>& kept) {
  double most = 0;
  for (const int32_t id : kept) most = std::max(most, all.weight[id]);
  std::erase_if(kept, [&](int32_t id) { return all.weight[id] < share * most; });
}

}  // namespace mnemon
