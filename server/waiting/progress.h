// SPDX-License-Identifier: MIT
// A watchdog for a runner, whose thread signals each round, step or piece of work;
// another thread measures how long no signal came.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace mnemon {

class Progress {
 public:
  using Duration = std::chrono::nanoseconds;

  // How long silence is normal. `longest`: recent duration of the longest model call of
  // any of `models` models; zero: none was measured.
  static Duration Limit(Duration longest, int64_t models) {
    constexpr std::chrono::seconds kLeast{10}, kUnmeasured{60};
    // All models may have turns in between, and prompts differ in length.
    constexpr int64_t kMargin = 4;
    if (longest.count() == 0) return kUnmeasured;
    return std::max<Duration>(kLeast, kMargin * models * longest);
  }

  // Signals progress. Called by the runner's thread.
  void Sign() { signs_.fetch_add(1, std::memory_order_relaxed); }

  // How long there has been work without a signal, as far as calls of this tell.
  // `work`: a round is under way or due. Called by one thread at a time.
  Duration Silence(bool work, std::chrono::steady_clock::time_point now) {
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
  // Used by the thread that calls Silence.
  int64_t seen_ = kNothing;
  std::chrono::steady_clock::time_point seen_at_;
};

}  // namespace mnemon
