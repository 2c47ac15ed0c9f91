// SPDX-License-Identifier: MIT
#include "model/sampling/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace mnemon {
namespace {

// Fewer are sorted at once.
constexpr size_t kFewForNucleus = 512;

// Around smaller ones exp rounds coarsely.
constexpr double kLeastNormalShare = 1e-300;
// Covers what exp and log round.
constexpr double kLogSlack = 1e-6;

}  // namespace

Candidates::Candidates(std::span<const double> logit, double most, double temperature,
                       CandidateScratch& scratch)
    : logit_(logit),
      most_(most),
      temperature_(temperature),
      ids_(scratch.ids),
      weight_(scratch.weight),
      entries_(scratch.entries),
      spare_(scratch.spare),
      nucleus_(scratch.nucleus) {
  ids_.resize(logit.size());
  std::iota(ids_.begin(), ids_.end(), 0);
  weight_.resize(logit.size());
}

double Candidates::Weigh() {
  double total = 0;
  if (weighed_) {
    for (const int32_t id : ids_) total += weight_[id];
    return total;
  }
  for (const int32_t id : ids_) {
    // Subtracting first keeps tiny temperatures finite: the best token has weight 1.
    const double gap = logit_[id] - most_;
    const double weight = gap == 0 ? 1.0 : std::exp(gap / temperature_);
    weight_[id] = weight;
    total += weight;
  }
  weighed_ = true;
  return total;
}

void Candidates::CutTopK(int32_t k) {
  const auto count = static_cast<size_t>(k);
  if (count >= ids_.size()) return;
  const auto before = [this](int32_t a, int32_t b) {
    return logit_[a] != logit_[b] ? logit_[a] > logit_[b] : a < b;
  };
  // The best k so far and up to k newer ones; what does not exceed the k-th best does
  // not get in. ids_ is overwritten behind the read position.
  size_t held = 0;
  double least = -INFINITY;
  const auto shrink = [&] {
    std::nth_element(ids_.begin(), ids_.begin() + (k - 1),
                     ids_.begin() + static_cast<ptrdiff_t>(held), before);
    held = count;
    least = logit_[ids_[count - 1]];
  };
  const auto vocab = static_cast<int32_t>(logit_.size());
  for (int32_t id = 0; id < vocab; ++id) {
    if (held >= count && !(logit_[id] > least)) continue;
    ids_[held++] = id;
    if (held == 2 * count) shrink();
  }
  if (held > count) shrink();
  // Once more in the order of ids.
  const int32_t last = *std::max_element(
      ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(held), before);
  size_t kept = 0;
  for (int32_t id = 0; id < vocab && kept < count; ++id) {
    ids_[kept] = id;
    kept += !before(last, id);
  }
  ids_.resize(kept);
}

void Candidates::CutTypical(double p) {
  const double total = Weigh();
  // What has no probability has no information either.
  std::erase_if(ids_, [&](int32_t id) { return weight_[id] == 0; });
  const double log_total = std::log(total);
  entries_.clear();
  double entropy = 0;
  for (const int32_t id : ids_) {
    const double information = log_total - std::log(weight_[id]);
    entropy += weight_[id] / total * information;
    entries_.push_back({.key = information, .id = id});
  }
  for (KeyedId& entry : entries_) entry.key = std::abs(entry.key - entropy);
  SortByKey(entries_, spare_);
  KeepUntil(p * total);
}

void Candidates::CutTopP(double p) {
  if (!weighed_ && ids_.size() >= kFewForNucleus &&
      CutToNucleus({.logit = logit_, .most = most_, .temperature = temperature_}, p,
                   ids_, nucleus_)) {
    return;
  }
  Weigh();
  entries_.clear();
  for (const int32_t id : ids_) entries_.push_back({.key = -logit_[id], .id = id});
  SortByKey(entries_, spare_);
  double total = 0;
  for (const KeyedId& entry : entries_) total += weight_[entry.id];
  KeepUntil(p * total);
}

void Candidates::KeepUntil(double target) {
  double sum = 0;
  auto at = entries_.begin();
  do sum += weight_[(at++)->id];
  while (sum < target && at != entries_.end());
  for (; at != entries_.end(); ++at) weight_[at->id] = 0;
  std::erase_if(ids_, [&](int32_t id) { return weight_[id] == 0; });
}

void Candidates::CutMinP(double share) {
  if (!weighed_ && share >= kLeastNormalShare) {
    // No exponential for what is far below the share. The most likely token is kept:
    // its weight is 1.
    const double least = std::log(share) - kLogSlack;
    std::erase_if(
        ids_, [&](int32_t id) { return (logit_[id] - most_) / temperature_ < least; });
  }
  Weigh();
  double most = 0;
  for (const int32_t id : ids_) most = std::max(most, weight_[id]);
  std::erase_if(ids_, [&](int32_t id) { return weight_[id] < share * most; });
}

}  // namespace mnemon
