// SPDX-License-Identifier: MIT
// A clock of the time in which this process could attend to others: what a caller is
// held against, who cannot be blamed for the time in which the process did not run.
#pragma once

#include <chrono>
#include <mutex>

#include "base/clock.h"

namespace mnemon {

// Goes on as the clock below it while a thread says every `slice`, or more often, that
// it runs. Where that thread comes late, because the process was stopped or got no
// core, only one slice of the time since has passed. Never goes back. Safe for
// concurrent use.
class AttendedClock final : public Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `clock` outlives it.
  AttendedClock(const Clock& clock, std::chrono::nanoseconds slice);

  // The thread runs.
  void Attend();

  Time Now() const override;
  std::chrono::system_clock::time_point WallNow() const override;

 private:
  Time NowLocked(Time real) const;

  const Clock& clock_;
  const std::chrono::nanoseconds slice_;
  mutable std::mutex mutex_;
  Time attended_at_;  // by the clock below; guarded by mutex_
  Time attended_;     // the same moment by this clock; guarded by mutex_
};

}  // namespace mnemon
