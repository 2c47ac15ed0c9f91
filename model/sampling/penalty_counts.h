// SPDX-License-Identifier: MIT
// The count of each token in the penalty window of one call, kept up to date as the
// history grows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // Counts the last `penalty_window_tokens` tokens; nothing when no penalty has an
  // effect.
  explicit PenaltyCounts(const SamplingParams& params)
      : window_(params.penalizes() ? static_cast<size_t>(params.penalty_window_tokens)
                                   : 0) {}

  // Takes the whole history, anything with size() and []: O(tokens added since the last
  // call), and O(window) after a cut and the first time. Allocates only while more
  // different tokens than ever before are in the window. REQUIRES: the tokens counted
  // so far are unchanged; after a cut, Update comes before other tokens are appended.
  template <class History>
  void Update(const History& history) {
    Update(history, history.size());
  }
  // The same with the first `size` tokens of `history`.
  template <class History>
  void Update(const History& history, size_t size) {
    if (window_ == 0) return;
    const size_t begin = size - std::min(size, window_);
    if (begin >= end_ || size < end_) Restart(begin);
    // First out, then in: the window never holds more different tokens than it may.
    while (begin_ < begin) Remove(history[begin_++]);
    while (end_ < size) Add(history[end_++]);
  }

  // Each token of the window once, in no particular order. Valid until the next Update.
  std::span<const TokenCount> counts() const { return counts_; }
  // Of memory, about.
  int64_t bytes() const;

 private:
  // Counts nothing, from `begin` on.
  void Restart(size_t begin);
  void Add(int32_t token);
  void Remove(int32_t token);

  size_t window_ = 0;
  // What is counted: history[begin_, end_).
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<TokenCount> counts_;
  absl::flat_hash_map<int32_t, size_t> position_;  // of a token in counts_
};

}  // namespace mnemon
