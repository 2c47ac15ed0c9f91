// SPDX-License-Identifier: MIT
// The progress of a run as a person sees it: a line per report on standard output, and
// on a terminal a bar on standard error in between.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "train/metrics.h"

namespace mnemon {

struct TimeSpan {
  std::chrono::steady_clock::time_point begin;
  std::chrono::nanoseconds length{0};
};

// Owned by one thread.
class Progress {
 public:
  // A run of `planned` updates of which `done` were made before. REQUIRES: planned > 0.
  Progress(const Clock& clock, int64_t done, int64_t planned);
  // A run that fills a span of time.
  Progress(const Clock& clock, int64_t done, const TimeSpan& span);

  // After every update, or `updates` of them; `tokens` they took.
  void Advance(int64_t tokens, int64_t updates = 1);
  // A line for `row`; `validation` is the latest, below 0 = none yet.
  void Report(const MetricsRow& row, double validation);
  // Of the updates since the last report; 0 without one.
  double TokensPerSecond() const;
  // Where a run is behind update `step`: "update 20 of 100", and where it fills a span
  // of time "update 20, 3% of the time".
  std::string At(int64_t step) const;
  // Text of its own, such as a sample.
  void Say(const std::string& text);
  // Time spent on something that is not an update does not count for speed and ETA.
  void Resume();

 private:
  Progress(const Clock& clock, int64_t done, int64_t planned, const TimeSpan& span);
  void DrawBar();
  void ClearBar();
  double Part() const;  // of the run that is over, 0 to 1
  double SecondsLeft() const;

  const Clock& clock_;
  const bool terminal_;
  const int64_t planned_;  // 0 = a span of time
  const TimeSpan span_;
  int64_t done_;
  // Updates, tokens and seconds since the last report, and seconds per update of it.
  int64_t updates_ = 0;
  int64_t tokens_ = 0;
  double seconds_ = 0;
  double seconds_per_update_ = 0;
  std::chrono::steady_clock::time_point last_;
  std::chrono::steady_clock::time_point bar_drawn_;
  bool bar_visible_ = false;
};

}  // namespace mnemon
