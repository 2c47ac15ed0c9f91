// SPDX-License-Identifier: MIT
// Counts of each token in the penalty window of one call, updated as the history grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/sampling/sampling_params.h"

namespace mnemon {

struct TokenCount {
  int32_t token = 0;
  int32_t count = 0;  // at least 1

  bool operator==(const TokenCount&) const = default;
};

// Not safe for concurrent use.
class PenaltyCounts {
 public:
  // Counts nothing.
  PenaltyCounts() = default;
  // Counts the last `penalty_window_tokens` tokens; nothing if no penalty has an
  // effect. Only this allocates. REQUIRES: no window holds more than `most` different
  // tokens; the vocabulary size or the length of the longest history is enough.
  PenaltyCounts(const SamplingParams& params, int64_t most);

  // Updates to the whole history, anything with size() and []: O(tokens added since the
  // last call), and O(window) after a truncation and the first time. REQUIRES: the
  // tokens counted so far are unchanged; after a truncation, Update comes before other
  // tokens are appended.
  template <class History>
  void Update(const History& history) {
    Update(history, history.size());
  }
  // The same for the first `size` tokens of `history`.
  template <class History>
  void Update(const History& history, size_t size) {
    if (window_ == 0) return;
    const size_t begin = size - std::min(size, window_);
    if (begin >= end_ || size < end_) Restart(begin);
    // Removes first, so that the window never holds more different tokens than allowed.
    while (begin_ < begin) Remove(history[begin_++]);
    while (end_ < size) Add(history[end_++]);
  }

  // Each token of the window once, in any order. Valid until the next Update.
  std::span<const TokenCount> counts() const { return counts_; }
  // Memory in use; constant.
  int64_t bytes() const;

 private:
  // Counts nothing, starting at `begin`.
  void Restart(size_t begin);
  void Add(int32_t token);
  void Remove(int32_t token);
  size_t Home(int32_t token) const;
  // The place of a token in table_, or the one where it would be inserted.
  size_t Find(int32_t token) const;

  size_t window_ = 0;
  size_t most_ = 0;  // different tokens in the window
  // The counted range is history[begin_, end_).
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<TokenCount> counts_;
  // Index into counts_ by token, or -1: a hash table with linear probing, at most half
  // full.
  std::vector<int32_t> table_;
  int table_bits_ = 0;
};

}  // namespace mnemon
