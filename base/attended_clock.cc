// SPDX-License-Identifier: MIT
#include "base/attended_clock.h"

#include <algorithm>

namespace mnemon {

AttendedClock::AttendedClock(const Clock& clock, std::chrono::nanoseconds slice)
    : clock_(clock),
      slice_(slice),
      attended_at_(clock.Now()),
      attended_(attended_at_) {}

void AttendedClock::Attend() {
  std::lock_guard lock(mutex_);
  const Time real = clock_.Now();
  attended_ = NowLocked(real);
  attended_at_ = real;
}

AttendedClock::Time AttendedClock::Now() const {
  std::lock_guard lock(mutex_);
  return NowLocked(clock_.Now());
}

AttendedClock::Time AttendedClock::NowLocked(Time real) const {
  const std::chrono::nanoseconds since = real - attended_at_;
  return attended_ + std::clamp(since, std::chrono::nanoseconds(0), slice_);
}

std::chrono::system_clock::time_point AttendedClock::WallNow() const {
  return clock_.WallNow();
}

}  // namespace mnemon
