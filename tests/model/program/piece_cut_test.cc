// SPDX-License-Identifier: MIT
#include "model/program/piece_cut.h"

#include <random>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

// Runs of random lengths, some of padding; tokens are the rows' numbers.
StepBatch DrawnBatch(std::minstd_rand& random) {
  StepBatch batch;
  const auto runs = static_cast<int32_t>(random() % 6);
  for (int32_t r = 0; r < runs; ++r) {
    const auto count = static_cast<int64_t>(1 + random() % 12);
    const int32_t slot = random() % 5 == 0 ? -1 : r;
    batch.runs.push_back(
        {.slot = slot, .first = batch.rows(), .count = count, .position = 100 * r});
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<int32_t>(batch.rows());
      if (slot >= 0 && random() % 3 == 0) batch.wanted.push_back(row);
      batch.tokens.push_back(row);
    }
  }
  return batch;
}

TEST(PieceCut, PiecesAreTheRowsInOrderButForPadding) {
  std::minstd_rand random(5);
  for (int i = 0; i < 500; ++i) {
    const StepBatch batch = DrawnBatch(random);
    const auto most = static_cast<int64_t>(1 + random() % 20);
    std::vector<int32_t> tokens, wanted;
    std::vector<int64_t> positions, expected;
    PieceCut cut(most);
    cut.Begin(batch);
    int64_t before = 0;
    while (const StepBatch* piece = cut.Next()) {
      EXPECT_TRUE(before == 0 || before == most) << "a piece that was not full";
      before = piece->rows();
      EXPECT_LE(piece->rows(), most);
      int64_t next = 0;
      for (const StepBatch::Run& run : piece->runs) {
        EXPECT_EQ(run.first, next);
        next += run.count;
        for (int64_t p = 0; p < run.count; ++p) {
          positions.push_back(run.position + p);
        }
      }
      EXPECT_EQ(next, piece->rows());
      tokens.insert(tokens.end(), piece->tokens.begin(), piece->tokens.end());
      for (const int32_t row : piece->wanted) {
        wanted.push_back(piece->tokens[static_cast<size_t>(row)]);
      }
    }
    std::vector<int32_t> rows;
    for (const StepBatch::Run& run : batch.runs) {
      for (int64_t p = 0; run.slot >= 0 && p < run.count; ++p) {
        rows.push_back(static_cast<int32_t>(run.first + p));
        expected.push_back(run.position + p);
      }
    }
    EXPECT_EQ(tokens, rows);
    EXPECT_EQ(positions, expected);
    EXPECT_EQ(wanted, batch.wanted);
  }
}

}  // namespace
}  // namespace mnemon
