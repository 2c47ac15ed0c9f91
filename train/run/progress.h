// SPDX-License-Identifier: MIT
// The progress of a run as a person sees it, on standard output: on a terminal one line
// that is rewritten in place, elsewhere a line per report.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "train/run/live_line.h"
#include "train/run/metrics.h"

namespace mnemon {

struct TimeSpan {
  std::chrono::steady_clock::time_point begin;
  std::chrono::nanoseconds length{0};
};

// Owned by one thread. Leaves the last state on the terminal when it is destroyed.
class Progress {
 public:
  // A run of `planned` updates of which `done` were made before. REQUIRES: planned > 0.
  Progress(const Clock& clock, int64_t done, int64_t planned);
  // A run that fills a span of time.
  Progress(const Clock& clock, int64_t done, const TimeSpan& span);

  struct Advanced {
    int64_t tokens = 0;
    int64_t updates = 1;
    std::optional<double> loss = {};  // of the update
  };
  void Advance(const Advanced& by);
  // `row` as a line of its own where there is no terminal, and of a validation there
  // too; `validation` is the latest, below 0 = none yet.
  void Report(const MetricsRow& row, double validation);
  // Of the updates since the last report; 0 without one.
  double TokensPerSecond() const;
  // Where a run is behind update `step`: "update 20 of 100", and where it fills a span
  // of time "update 20, 3% of the time".
  std::string At(int64_t step) const;
  // Text of its own that stays, such as a sample.
  void Say(const std::string& text) { line_.Print(text); }
  // Whether there is a line that is rewritten.
  bool live() const { return line_.live(); }
  // It stays, with the state of this moment, and what is said from now on comes below.
  void Leave();
  // Time spent on something that is not an update does not count for speed and ETA.
  void Resume();

 private:
  Progress(const Clock& clock, int64_t done, int64_t planned, const TimeSpan& span);
  void ShowLine();
  std::string Step(int64_t step) const;
  double Part() const;  // of the run that is over, 0 to 1
  double SecondsLeft() const;

  const Clock& clock_;
  const int64_t planned_;  // 0 = a span of time
  const TimeSpan span_;
  int64_t done_;
  // Updates, tokens and seconds since the last report, and seconds per update of it.
  int64_t updates_ = 0;
  int64_t tokens_ = 0;
  double seconds_ = 0;
  double seconds_per_update_ = 0;
  std::chrono::steady_clock::time_point last_;

  LiveLine line_;
  std::chrono::steady_clock::time_point shown_;
  // What the live line tells beside.
  double loss_sum_ = 0;  // since the last report
  std::optional<double> loss_, validation_, accuracy_;
  double speed_ = 0;  // of the last report
};

}  // namespace mnemon
