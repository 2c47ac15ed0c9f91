// SPDX-License-Identifier: MIT
#include "model/program/step_partition.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using Way = StepPartition::Way;

StepProgram Program(int64_t heads, int64_t slices) {
  StepProgram program;
  program.heads = heads;
  FeedForwardOp feed;
  feed.out.inputs = 64 * slices;
  feed.out.slice = 64;
  program.layers.emplace_back(feed);
  return program;
}

StepBatch Batch(const std::vector<int64_t>& counts) {
  StepBatch batch;
  for (const int64_t count : counts) {
    batch.runs.push_back({.first = batch.rows(), .count = count});
    batch.tokens.resize(batch.tokens.size() + static_cast<size_t>(count));
  }
  return batch;
}

// The other way, where there is one.
StepPartition Divided(const StepBatch& batch, size_t workers, int64_t heads) {
  StepPartition partition;
  partition.workers.resize(workers);
  const StepProgram program = Program(heads, 8);
  Divide(batch, program, OtherWay(batch, program, static_cast<int64_t>(workers)),
         partition);
  return partition;
}

TEST(Divide, FewRowsGoByHead) {
  const StepPartition partition = Divided(Batch({1, 3}), 3, 4);
  ASSERT_EQ(partition.way, Way::kByHead);
  int64_t heads = 0, slices = 0;
  for (const StepPartition::Worker& worker : partition.workers) {
    EXPECT_EQ(worker.heads.begin, heads);
    EXPECT_EQ(worker.slices.begin, slices);
    heads = worker.heads.end;
    slices = worker.slices.end;
    EXPECT_EQ(worker.runs.size(), 2);
  }
  EXPECT_EQ(heads, 4);
  EXPECT_EQ(slices, 8);
  EXPECT_EQ(Divided(Batch({1, kRowsByHead}), 3, 4).way, Way::kByOperation);
}

TEST(Divide, WavesOfFewRowsGoByHead) {
  StepProgram program = Program(4, 8);
  EXPECT_EQ(OtherWay(Batch({20}), program, 2), Way::kByOperation);
  EXPECT_EQ(RowsTogether(Batch({20}), program), 20);
  program.remember.emplace();
  EXPECT_EQ(OtherWay(Batch({20}), program, 2), Way::kByHead);
  EXPECT_EQ(RowsTogether(Batch({20}), program), 1);
}

TEST(Divide, OneWorkerGoesByOperation) {
  EXPECT_EQ(Divided(Batch({1}), 1, 4).way, Way::kByOperation);
}

TEST(Divide, OfMoreWorkersThanHeadsTheLastHaveNone) {
  const StepPartition partition = Divided(Batch({1}), 5, 4);
  ASSERT_EQ(partition.way, Way::kByHead);
  std::vector<int64_t> heads, slices;
  for (const StepPartition::Worker& worker : partition.workers) {
    heads.push_back(worker.heads.size());
    slices.push_back(worker.slices.size());
  }
  EXPECT_THAT(heads, testing::ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT(slices, testing::ElementsAre(2, 2, 1, 2, 1));
}

TEST(Divide, ManyRowsGoAloneWhereTheyAreEven) {
  const std::vector<int64_t> even(32, 1);
  const StepPartition partition = Divided(Batch(even), 2, 4);
  ASSERT_EQ(partition.way, Way::kAlone);
  EXPECT_EQ(partition.workers[0].runs.size(), 16);
  EXPECT_EQ(partition.workers[1].runs.end, 32);
  const auto way = [](int64_t rows, size_t workers) {
    return Divided(Batch(std::vector<int64_t>(rows, 1)), workers, 4).way;
  };
  EXPECT_EQ(way(kRowsByHead, 2), Way::kByHead);
  EXPECT_EQ(way(kRowsByHead + 1, 2), Way::kAlone);
  EXPECT_EQ(way(3 * kRowsAlone, 3), Way::kAlone);
  EXPECT_EQ(way(3 * kRowsAlone - 1, 3), Way::kByOperation);
  EXPECT_EQ(Divided(Batch({40, 8}), 2, 4).way, Way::kByOperation);
  EXPECT_EQ(Divided(Batch({64}), 2, 4).way, Way::kByOperation);
}

TEST(Divide, NoWorkerThatGoesAloneHasMoreThanItsRoom) {
  for (int64_t workers = 2; workers <= 4; ++workers) {
    for (int64_t first = 1; first <= 64; ++first) {
      const StepBatch batch = Batch({first, 20, 30, 20, 17, 1, 40});
      const StepPartition partition = Divided(batch, static_cast<size_t>(workers), 4);
      if (partition.way != Way::kAlone) continue;
      int64_t next = 0;
      for (const StepPartition::Worker& worker : partition.workers) {
        EXPECT_EQ(worker.runs.begin, next);
        next = worker.runs.end;
        int64_t rows = 0;
        for (int64_t r = worker.runs.begin; r < worker.runs.end; ++r) {
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
