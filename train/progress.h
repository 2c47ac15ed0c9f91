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

// Owned by one thread.
class Progress {
 public:
  // A run of `planned` updates of which `done` were made before.
  Progress(const Clock& clock, int64_t done, int64_t planned);

  // After every update, or `updates` of them; `tokens` they took.
  void Advance(int64_t tokens, int64_t updates = 1);
  // A line for `row`; `validation` is the latest, below 0 = none yet.
  void Report(const MetricsRow& row, double validation);
  // Text of its own, such as a sample.
  void Say(const std::string& text);
  // Time spent on something that is not an update does not count for speed and ETA.
  void Resume();

 private:
  void DrawBar();
  void ClearBar();

  const Clock& clock_;
  const bool terminal_;
  const int64_t planned_;
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
