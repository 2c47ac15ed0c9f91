// SPDX-License-Identifier: MIT
// A clock of the time during which this process could serve others: for time limits of
// callers, who are not to blame for time in which the process did not run.
#pragma once

#include <chrono>
#include <mutex>

#include "base/clock.h"

namespace mnemon {

// Advances like the underlying clock while a thread reports at least once per `slice`
// that it runs. If that thread is late, because the process was stopped or got no core,
// only one slice counts. Never goes back. Safe for concurrent use.
class AttendedClock final : public Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `clock` must outlive it.
  AttendedClock(const Clock& clock, std::chrono::nanoseconds slice);

  // Reports that the thread runs.
  void Attend();

  Time Now() const override;
  std::chrono::system_clock::time_point WallNow() const override;

 private:
  Time NowLocked(Time real) const;

  const Clock& clock_;
  const std::chrono::nanoseconds slice_;
  mutable std::mutex mutex_;
  Time attended_at_;  // by the underlying clock; guarded by mutex_
  Time attended_;     // the same moment by this clock; guarded by mutex_
};

}  // namespace mnemon
