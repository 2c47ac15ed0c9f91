// SPDX-License-Identifier: MIT
#include "model/program/step/way_tuner.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

using Way = StepPartition::Way;

int64_t g_microseconds = 0;

WayTuner::Time Now() {
  return WayTuner::Time(std::chrono::microseconds(g_microseconds));
}

class WayTunerTest : public testing::Test {
 protected:
  // One step of `rows` rows, which takes so many microseconds per row, by way.
  Way Step(int64_t rows, int64_t other, int64_t by_operation, Way alternative) {
    const Way way = tuner_.Begin(alternative, rows);
    g_microseconds += rows * (way == alternative ? other : by_operation);
    tuner_.End(rows);
    return way;
  }

  // Number of `count` steps that went the other way.
  int Others(int count, int64_t rows, int64_t other, int64_t by_operation,
             Way alternative = Way::kByHead) {
    int others = 0;
    for (int i = 0; i < count; ++i) {
      others += Step(rows, other, by_operation, alternative) == alternative;
    }
    return others;
  }

  WayTuner tuner_{&Now};
};

constexpr int kShortest = 2 * WayTuner::kAhead;  // steps of a trial

TEST_F(WayTunerTest, KeepsToTheFasterWay) {
  EXPECT_EQ(Others(kShortest, 1, 10, 11), kShortest / 2);
  EXPECT_EQ(Others(WayTuner::kKept, 1, 10, 11), WayTuner::kKept);
  EXPECT_EQ(Others(kShortest, 4, 11, 10), kShortest / 2);
  EXPECT_EQ(Others(WayTuner::kKept, 4, 11, 10), 0);
}

TEST_F(WayTunerTest, TriesAgain) {
  Others(kShortest + WayTuner::kKept, 1, 10, 11);
  EXPECT_EQ(Others(kShortest, 1, 11, 10), kShortest / 2);
  EXPECT_EQ(Others(100, 1, 11, 10), 0);
}

TEST_F(WayTunerTest, ComparesTimesPerRow) {
  // Each pair has steps of 5 and 8 rows, in this order.
  for (int i = 0; i < WayTuner::kAhead; ++i) {
    Step(5, 10, 11, Way::kByHead);
    Step(8, 10, 11, Way::kByHead);
  }
  EXPECT_EQ(Others(100, 8, 10, 11), 100);
}

TEST_F(WayTunerTest, EndsWithoutAWinner) {
  EXPECT_EQ(Others(2 * WayTuner::kMostPairs, 1, 10, 10), WayTuner::kMostPairs);
  EXPECT_EQ(Others(100, 1, 10, 10), 0);
}

TEST_F(WayTunerTest, TunesEachPowerOfTwoOfRows) {
  Others(kShortest, 2, 10, 11);
  Others(kShortest, 8, 11, 10);
  Others(kShortest, 64, 10, 11, Way::kAlone);
  EXPECT_EQ(Others(100, 2, 10, 11), 100);
  EXPECT_EQ(Others(100, 5, 10, 11), 0);
  EXPECT_EQ(Others(100, 33, 10, 11, Way::kAlone), 100);
}

TEST_F(WayTunerTest, LeavesStepsWithoutAnotherWay) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Step(9, 10, 11, Way::kByOperation), Way::kByOperation);
  }
  EXPECT_EQ(Others(kShortest, 9, 10, 11), kShortest / 2);
}

}  // namespace
}  // namespace mnemon
