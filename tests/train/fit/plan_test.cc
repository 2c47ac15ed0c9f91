// SPDX-License-Identifier: MIT
#include "train/fit/plan.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;

// The updates after which something is due, if update i takes `seconds(i)`.
template <class Seconds>
std::vector<int64_t> DueUpdates(const Plan& plan, bool Due::*what, Seconds seconds) {
  std::vector<int64_t> found;
  Passed passed, validated;
  for (bool over = false; !over;) {
    passed.seconds += seconds(passed.updates);
    ++passed.updates;
    const Due due = plan.DueAfter(passed, validated);
    over = due.last;
    if (due.validation) validated = passed;
    if (due.*what) found.push_back(passed.updates);
  }
  return found;
}

double Quick(int64_t) { return 0.001; }

TEST(PlanTest, StepsAndEpochsAreUpdatesWhateverTheTime) {
  for (const DurationOptions& duration :
       {DurationOptions{.steps = 24}, DurationOptions{.epochs = 3}}) {
    const Plan plan({.duration = duration}, 0, 8);
    EXPECT_EQ(plan.updates(), 24);
    for (const double pace : {0.0, 1.0, 1e6}) {
      const auto seconds = [&](int64_t) { return pace; };
      EXPECT_THAT(DueUpdates(plan, &Due::last, seconds), ElementsAre(24));
      EXPECT_THAT(DueUpdates(plan, &Due::validation, seconds),
                  ElementsAre(3, 6, 9, 12, 15, 18, 21, 24));
      EXPECT_EQ(plan.Position({.updates = 6, .seconds = 6 * pace}).part, 0.25);
    }
  }
}

TEST(PlanTest, EpochsComeAfterTheCurriculum) {
  EXPECT_EQ(Plan({.duration = {.epochs = 2}}, 5, 8).updates(), 21);
  EXPECT_EQ(Plan({.duration = {.steps = 12}}, 5, 8).updates(), 12);
}

TEST(PlanTest, DistancesOfValidationsAndCheckpointsAreKept) {
  for (const DurationOptions& duration :
       {DurationOptions{.steps = 10}, DurationOptions{.seconds = 1}}) {
    const Plan plan({.duration = duration, .validate_every = 4, .checkpoint_every = 3},
                    0, 8);
    const auto seconds = [](int64_t) { return 0.1000001; };
    EXPECT_THAT(DueUpdates(plan, &Due::validation, seconds), ElementsAre(4, 8, 10));
    EXPECT_THAT(DueUpdates(plan, &Due::checkpoint, seconds), ElementsAre(3, 6, 9, 10));
  }
}

TEST(PlanTest, SecondsEndTheRunOnAnyMachine) {
  const Plan plan({.duration = {.seconds = 10}}, 0, 8);
  EXPECT_EQ(plan.updates(), 0);
  EXPECT_THAT(DueUpdates(plan, &Due::last, [](int64_t) { return 3.0; }),
              ElementsAre(4));
  EXPECT_EQ(DueUpdates(plan, &Due::validation, Quick).size(), 10u);
  // Twenty times slower from the middle on.
  const auto loaded = [](int64_t update) { return update < 50 ? 0.1 : 2.0; };
  EXPECT_THAT(DueUpdates(plan, &Due::last, loaded), ElementsAre(53));
  EXPECT_EQ(plan.Position({.updates = 50, .seconds = 5}).part, 0.5);
  EXPECT_EQ(plan.Position({.updates = 53, .seconds = 11}).part, 1);
  // Two tenths in one update are one validation.
  EXPECT_THAT(DueUpdates(plan, &Due::validation, [](int64_t) { return 2.0; }),
              ElementsAre(1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace mnemon
