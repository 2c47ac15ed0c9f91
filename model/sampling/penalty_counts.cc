// SPDX-License-Identifier: MIT
#include "model/sampling/penalty_counts.h"

#include <utility>

namespace mnemon {

void PenaltyCounts::Restart(size_t begin) {
  counts_.clear();
  position_.clear();
  begin_ = end_ = begin;
}

int64_t PenaltyCounts::bytes() const {
  // A slot of the table has a byte of control.
  constexpr size_t kSlot = sizeof(std::pair<int32_t, size_t>) + 1;
  return static_cast<int64_t>(counts_.capacity() * sizeof(TokenCount) +
                              position_.capacity() * kSlot);
}

void PenaltyCounts::Add(int32_t token) {
  const auto [at, added] = position_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({.token = token});
  ++counts_[at->second].count;
}

void PenaltyCounts::Remove(int32_t token) {
  const auto at = position_.find(token);
  TokenCount& entry = counts_[at->second];
  if (--entry.count > 0) return;
  entry = counts_.back();
  position_[entry.token] = at->second;
  counts_.pop_back();
  position_.erase(token);
}

}  // namespace mnemon
