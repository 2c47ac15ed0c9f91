// SPDX-License-Identifier: MIT
#include "model/sampling/penalty_counts.h"

#include <algorithm>

namespace mnemon {

void PenaltyCounts::Update(std::span<const int32_t> history) {
  if (window_ == 0) return;
  const size_t begin = history.size() - std::min(history.size(), window_);
  // Nothing that is counted stays, or the ids of the tokens that were cut off are gone.
  if (begin >= end_ || history.size() < end_) {
    counts_.clear();
    position_.clear();
    begin_ = end_ = begin;
  }
  // First out, then in: the window never holds more different tokens than it may.
  while (begin_ < begin) Remove(history[begin_++]);
  while (end_ < history.size()) Add(history[end_++]);
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
