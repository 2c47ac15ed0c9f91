// SPDX-License-Identifier: MIT
// The progress of a run on standard output: one line rewritten in place on a terminal,
// else a line per report.
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

// Owned by one thread. The destructor leaves the last state on the terminal.
class Progress {
 public:
  // A run of `planned` updates, `done` of them made before. REQUIRES: planned > 0.
  Progress(const Clock& clock, int64_t done, int64_t planned);
  // A run that lasts for a span of time.
  Progress(const Clock& clock, int64_t done, const TimeSpan& span);

  struct Advanced {
    int64_t tokens = 0;
    int64_t updates = 1;
    std::optional<double> loss = {};  // of the last update
  };
  void Advance(const Advanced& by);
  // Prints `row` as a line of its own if there is no terminal or `row` has a
  // validation. `validation`: the latest one; below 0 = none yet.
  void Report(const MetricsRow& row, double validation);
  // Speed over the updates since the last report; 0 if there are none.
  double TokensPerSecond() const;
  // The position of the run after update `step`: "update 20 of 100", or "update 20, 3%
  // of the time" for a run that lasts for a span of time.
  std::string At(int64_t step) const;
  // Prints permanent text, such as a sample.
  void Say(const std::string& text) { line_.Print(text); }
  // Whether a line is rewritten in place.
  bool live() const { return line_.live(); }
  // Updates that line a last time and keeps it; later output comes below it.
  void Leave();
  // Call after work that is not an update: its time does not count for speed and ETA.
  void Resume();

 private:
  Progress(const Clock& clock, int64_t done, int64_t planned, const TimeSpan& span);
  void ShowLine();
  std::string Step(int64_t step) const;
  double Part() const;  // fraction of the run that is over
  double SecondsLeft() const;

  const Clock& clock_;
  const int64_t planned_;  // 0 = a span of time
  const TimeSpan span_;
  int64_t done_;
  // Updates, tokens, seconds and seconds per update since the last report.
  int64_t updates_ = 0;
  int64_t tokens_ = 0;
  double seconds_ = 0;
  double seconds_per_update_ = 0;
  std::chrono::steady_clock::time_point last_;

  LiveLine line_;
  std::chrono::steady_clock::time_point shown_;
  // Further figures of the live line.
  double loss_sum_ = 0;  // since the last report
  std::optional<double> loss_, validation_, accuracy_;
  double speed_ = 0;  // of the last report
};

}  // namespace mnemon
