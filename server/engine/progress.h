// SPDX-License-Identifier: MIT
// Whether a runner makes progress, seen from other threads: its thread gives a sign
// with each round, step or piece, and who asks remembers when the last one came. So a
// thread that hangs, wherever that is, or does not wake up needs no code of its own.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace mnemon {

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  // How long nothing may happen where the longest call of any of `models` models took
  // `longest` of late; zero: none was measured.
  static Duration Limit(Duration longest, int64_t models) {
    constexpr std::chrono::seconds kLeast{10}, kUnmeasured{60};
    // All models may have their turns in between, and prompts differ.
    constexpr int64_t kMargin = 4;
    if (longest.count() == 0) return kUnmeasured;
    return std::max<Duration>(kLeast, kMargin * models * longest);
  }

  // By the runner's thread.
  void Sign() { signs_.fetch_add(1, std::memory_order_relaxed); }

  // For how long there has been work and no sign, as far as calls of this function
  // tell. `work`: a round is under way or due. Not to be called by two threads at once.
  Duration Silence(bool work, Time now) {
    const int64_t signs = signs_.load(std::memory_order_relaxed);
    if (!work || signs != seen_) {
      seen_ = work ? signs : kNothing;
      seen_at_ = now;
    }
    return now - seen_at_;
  }

 private:
  static constexpr int64_t kNothing = -1;

  std::atomic<int64_t> signs_ = 0;
  // Of the thread that asks.
  int64_t seen_ = kNothing;
  Time seen_at_;
};

}  // namespace mnemon
