// SPDX-License-Identifier: MIT
#include "model/program/step/step_partition.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using Way = StepPartition::Way;

StepBatch Batch(const std::vector<int64_t>& counts) {
  StepBatch batch;
  for (const int64_t count : counts) {
    batch.runs.push_back({.first = batch.rows(), .count = count});
    batch.tokens.resize(batch.tokens.size() + static_cast<size_t>(count));
  }
  return batch;
}

// The other way, where there is one.
StepPartition Divided(const StepBatch& batch, size_t workers) {
  StepPartition partition;
  partition.runs.resize(workers);
  Divide(batch, OtherWay(batch, {}, static_cast<int64_t>(workers)), partition);
  return partition;
}

TEST(Divide, FewRowsGoByHead) {
  const StepPartition partition = Divided(Batch({1, 3}), 3);
  ASSERT_EQ(partition.way, Way::kByHead);
  for (const Part& runs : partition.runs) {
    EXPECT_EQ(runs.begin, 0);
    EXPECT_EQ(runs.end, 2);
  }
  EXPECT_EQ(Divided(Batch({1, kRowsByHead}), 3).way, Way::kByOperation);
}

TEST(Divide, WavesOfFewRowsGoByHead) {
  StepProgram program;
  EXPECT_EQ(OtherWay(Batch({20}), program, 2), Way::kByOperation);
  EXPECT_EQ(RowsTogether(Batch({20}), program), 20);
  program.remember.emplace();
  EXPECT_EQ(OtherWay(Batch({20}), program, 2), Way::kByHead);
  EXPECT_EQ(RowsTogether(Batch({20}), program), 1);
}

TEST(Divide, OneWorkerGoesByOperation) {
  EXPECT_EQ(Divided(Batch({1}), 1).way, Way::kByOperation);
}

TEST(Divide, MoreWorkersThanGroupsOfHeadsGoByOperation) {
  StepProgram program;
  program.fewest_groups = 4;
  EXPECT_EQ(OtherWay(Batch({1}), program, 4), Way::kByHead);
  EXPECT_EQ(OtherWay(Batch({1}), program, 5), Way::kByOperation);
}

TEST(Divide, ManyRowsGoAloneWhereTheyAreEven) {
  const std::vector<int64_t> even(32, 1);
  const StepPartition partition = Divided(Batch(even), 2);
  ASSERT_EQ(partition.way, Way::kAlone);
  EXPECT_EQ(partition.runs[0].size(), 16);
  EXPECT_EQ(partition.runs[1].end, 32);
  const auto way = [](int64_t rows, size_t workers) {
    return Divided(Batch(std::vector<int64_t>(rows, 1)), workers).way;
  };
  EXPECT_EQ(way(kRowsByHead, 2), Way::kByHead);
  EXPECT_EQ(way(kRowsByHead + 1, 2), Way::kAlone);
  EXPECT_EQ(way(3 * kRowsAlone, 3), Way::kAlone);
  EXPECT_EQ(way(3 * kRowsAlone - 1, 3), Way::kByOperation);
  EXPECT_EQ(Divided(Batch({40, 8}), 2).way, Way::kByOperation);
  EXPECT_EQ(Divided(Batch({64}), 2).way, Way::kByOperation);
}

TEST(Divide, NoWorkerThatGoesAloneHasMoreThanItsRoom) {
  for (int64_t workers = 2; workers <= 4; ++workers) {
    for (int64_t first = 1; first <= 64; ++first) {
      const StepBatch batch = Batch({first, 20, 30, 20, 17, 1, 40});
      const StepPartition partition = Divided(batch, static_cast<size_t>(workers));
      if (partition.way != Way::kAlone) continue;
      int64_t next = 0;
      for (const Part& runs : partition.runs) {
        EXPECT_EQ(runs.begin, next);
        next = runs.end;
        int64_t rows = 0;
        for (int64_t r = runs.begin; r < runs.end; ++r) {
          rows += batch.runs[static_cast<size_t>(r)].count;
        }
        EXPECT_LE(rows, MostRowsAlone(batch.rows(), workers));
      }
      EXPECT_EQ(next, 7);
    }
  }
}

}  // namespace
}  // namespace mnemon
