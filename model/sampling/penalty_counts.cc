// SPDX-License-Identifier: MIT
#include "model/sampling/penalty_counts.h"

#include <bit>

#include "base/check.h"

namespace mnemon {
namespace {

constexpr int32_t kNone = -1;

}  // namespace

PenaltyCounts::PenaltyCounts(const SamplingParams& params, int64_t most)
    : window_(params.penalizes() ? static_cast<size_t>(params.penalty_window_tokens)
                                 : 0),
      most_(std::min(window_, static_cast<size_t>(most))) {
  if (most_ == 0) return;
  counts_.reserve(most_);
  table_.resize(std::bit_ceil(2 * most_), kNone);
  table_bits_ = std::countr_zero(table_.size());
}

void PenaltyCounts::Restart(size_t begin) {
  if (!counts_.empty()) std::fill(table_.begin(), table_.end(), kNone);
  counts_.clear();
  begin_ = end_ = begin;
}

int64_t PenaltyCounts::bytes() const {
  return static_cast<int64_t>(counts_.capacity() * sizeof(TokenCount) +
                              table_.capacity() * sizeof(int32_t));
}

// The upper bits of the product depend on all bits of the token.
size_t PenaltyCounts::Home(int32_t token) const {
  return static_cast<uint32_t>(token) * 0x9E3779B9u >> (32 - table_bits_);
}

size_t PenaltyCounts::Find(int32_t token) const {
  size_t at = Home(token);
  while (table_[at] != kNone && counts_[table_[at]].token != token)
    at = (at + 1) & (table_.size() - 1);
  return at;
}

void PenaltyCounts::Add(int32_t token) {
  const size_t at = Find(token);
  if (table_[at] == kNone) {
    MNEMON_CHECK(counts_.size() < most_);
    table_[at] = static_cast<int32_t>(counts_.size());
    counts_.push_back({.token = token});
  }
  ++counts_[table_[at]].count;
}

void PenaltyCounts::Remove(int32_t token) {
  const size_t mask = table_.size() - 1;
  size_t hole = Find(token);
  const int32_t place = table_[hole];
  if (--counts_[place].count > 0) return;
  table_[Find(counts_.back().token)] = place;
  counts_[place] = counts_.back();
  counts_.pop_back();
  // Tokens that were displaced from their home by it move up.
  for (size_t at = (hole + 1) & mask; table_[at] != kNone; at = (at + 1) & mask) {
    const size_t home = Home(counts_[table_[at]].token);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole] = kNone;
}

}  // namespace mnemon
