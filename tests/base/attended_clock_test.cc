// SPDX-License-Identifier: MIT
#include "base/attended_clock.h"

#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"

namespace mnemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(AttendedClock, GoesOnWhileItIsAttended) {
  FakeClock real;
  AttendedClock clock(real, milliseconds(250));
  const auto begin = clock.Now();
  for (int i = 0; i < 10; ++i) {
    real.Advance(milliseconds(100));
    EXPECT_EQ(clock.Now() - begin, milliseconds(250 * i + 100));
    real.Advance(milliseconds(150));
    EXPECT_EQ(clock.Now() - begin, milliseconds(250 * (i + 1)));
    clock.Attend();
    EXPECT_EQ(clock.Now() - begin, milliseconds(250 * (i + 1)));
  }
}

TEST(AttendedClock, OfALongerTimeOneSliceCounts) {
  FakeClock real;
  AttendedClock clock(real, milliseconds(250));
  const auto begin = clock.Now();
  real.Advance(milliseconds(251));
  EXPECT_EQ(clock.Now() - begin, milliseconds(250));
  real.Advance(hours(1));
  EXPECT_EQ(clock.Now() - begin, milliseconds(250));
  clock.Attend();
  EXPECT_EQ(clock.Now() - begin, milliseconds(250));
  real.Advance(milliseconds(10));
  EXPECT_EQ(clock.Now() - begin, milliseconds(260));
  // Attended more often than it has to be.
  clock.Attend();
  real.Advance(milliseconds(10));
  clock.Attend();
  EXPECT_EQ(clock.Now() - begin, milliseconds(270));
}

}  // namespace
}  // namespace mnemon
