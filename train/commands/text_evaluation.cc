// SPDX-License-Identifier: MIT
#include "train/commands/text_evaluation.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// Windows side by side: enough to fill the cores, few enough to stay small.
constexpr int64_t kRows = 32;

class TextWalk {
 public:
  TextWalk(std::span<const int32_t> tokens, int64_t window, RowFeed& feed,
           const std::function<void(int64_t)>& progress)
      : tokens_(tokens), window_(window), feed_(feed), progress_(progress) {}

  // Positions that have a target.
  int64_t positions() const { return static_cast<int64_t>(tokens_.size()) - 1; }

  // `rows` windows of `length` positions from `begin` on, in as many calls as needed.
  absl::Status FeedWindows(int64_t begin, int64_t rows, int64_t length) {
    for (int64_t at = 0; at < length;) {
      const int64_t count = std::min(length - at, feed_.most_tokens());
      MNEMON_ASSIGN_OR_RETURN(const at::Tensor logits,
                              feed_.Feed(Piece(begin + at, rows, count)));
      sum_.Add(logits.flatten(0, 1), Piece(begin + at + 1, rows, count).flatten());
      at += count;
    }
    progress_(rows * length);
    return absl::OkStatus();
  }

  absl::StatusOr<Evaluation> Kept() {
    MNEMON_RETURN_IF_ERROR(feed_.Restart(1));
    for (int64_t at = 0; at < positions(); at += window_) {
      MNEMON_RETURN_IF_ERROR(FeedWindows(at, 1, std::min(window_, positions() - at)));
    }
    return sum_;
  }

  absl::StatusOr<Evaluation> Fresh() {
    const int64_t whole = positions() / window_;
    const int64_t side_by_side = std::min(feed_.most_rows(), kRows);
    for (int64_t first = 0; first < whole; first += side_by_side) {
      const int64_t rows = std::min(side_by_side, whole - first);
      MNEMON_RETURN_IF_ERROR(feed_.Restart(rows));
      MNEMON_RETURN_IF_ERROR(FeedWindows(first * window_, rows, window_));
    }
    const int64_t left = positions() - whole * window_;
    if (left == 0) return sum_;
    MNEMON_RETURN_IF_ERROR(feed_.Restart(1));
    MNEMON_RETURN_IF_ERROR(FeedWindows(whole * window_, 1, left));
    return sum_;
  }

 private:
  // `count` tokens of each of `rows` windows, the first from `begin` on.
  at::Tensor Piece(int64_t begin, int64_t rows, int64_t count) const {
    at::Tensor piece = at::empty({rows, count}, at::kLong);
    int64_t* out = piece.data_ptr<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
      const auto from = tokens_.begin() + begin + row * window_;
      out = std::copy(from, from + count, out);
    }
    return piece;
  }

  const std::span<const int32_t> tokens_;
  const int64_t window_;
  RowFeed& feed_;
  const std::function<void(int64_t)>& progress_;
  Evaluation sum_;
};

}  // namespace

absl::StatusOr<Evaluation> EvaluateText(std::span<const int32_t> tokens, int64_t window,
                                        WindowMemory memory, RowFeed& feed,
                                        const std::function<void(int64_t)>& progress) {
  if (tokens.size() < 2) {
    return absl::InvalidArgumentError(
        StrCat("has ", tokens.size(),
               " tokens: the first is only read, so there must "
               "be two or more"));
  }
  TextWalk walk(tokens, window, feed, progress);
  return memory == WindowMemory::kKept ? walk.Kept() : walk.Fresh();
}

}  // namespace mnemon
