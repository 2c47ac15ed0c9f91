// SPDX-License-Identifier: MIT
// The loss of a model over a text, every position counted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "train/commands/row_feed.h"
#include "train/fit/evaluation.h"

namespace mnemon {

// What happens between two windows.
enum class WindowMemory {
  kFresh,  // each starts with none, several side by side
  kKept,   // one after the other, with the memory of all before
};

// Computes `tokens` but the last in windows of `window` that do not overlap, the last
// one shorter where it must be; the token behind each position is its target.
// `progress(n)` is called after every n positions. INVALID_ARGUMENT for fewer than two
// tokens, else the errors of the feed.
absl::StatusOr<Evaluation> EvaluateText(std::span<const int32_t> tokens, int64_t window,
                                        WindowMemory memory, RowFeed& feed,
                                        const std::function<void(int64_t)>& progress);

}  // namespace mnemon
