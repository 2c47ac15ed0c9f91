// SPDX-License-Identifier: MIT
// The loss of a model over all positions of a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "train/commands/row_feed.h"
#include "train/fit/evaluation.h"

namespace mnemon {

// Memory at the start of a window.
enum class WindowMemory {
  kFresh,  // empty; several windows are computed at a time
  kKept,   // that of all windows before; one window at a time
};

// Evaluates all `tokens` but the first as targets: the target of a position is the next
// token. Windows of `window` tokens do not overlap; the last may be shorter. Calls
// `progress(n)` after every n positions. INVALID_ARGUMENT for fewer than two tokens,
// else the errors of the feed.
absl::StatusOr<Evaluation> EvaluateText(std::span<const int32_t> tokens, int64_t window,
                                        WindowMemory memory, RowFeed& feed,
                                        const std::function<void(int64_t)>& progress);

}  // namespace mnemon
