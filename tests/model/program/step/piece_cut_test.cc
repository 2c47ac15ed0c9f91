// SPDX-License-Identifier: MIT
#include "model/program/step/piece_cut.h"

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

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
    batch.runs.push_back({.slot = slot,
                          .first = batch.rows(),
                          .count = count,
                          .position = 100 * r,
                          .draws = random() % 2 == 0});
    for (int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<int32_t>(batch.rows());
      if (slot >= 0 && random() % 3 == 0) batch.wanted.push_back(row);
      batch.tokens.push_back(row);
    }
  }
  return batch;
}

// What the pieces of a batch hold.
struct Pieces {
  std::vector<int32_t> tokens, wanted, drawn;  // tokens of rows
  std::vector<int64_t> positions, indices;

  void Add(const PieceCut::Piece& piece) {
    const StepBatch& batch = piece.batch;
    const auto token = [&](int32_t logits_row) {
      return batch.tokens[static_cast<size_t>(batch.wanted[logits_row])];
    };
    int64_t next = 0;
    for (const StepBatch::Run& run : batch.runs) {
      EXPECT_EQ(run.first, next);
      next += run.count;
      for (int64_t i = 0; i < run.count; ++i) positions.push_back(run.position + i);
    }
    EXPECT_EQ(next, batch.rows());
    EXPECT_TRUE(std::ranges::is_sorted(batch.wanted, std::less_equal<>()) ||
                batch.wanted.size() < 2);
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
    for (const int32_t row : piece.to_host) wanted.push_back(token(row));
    for (const PieceCut::Piece::Draw& draw : piece.draws) {
      drawn.push_back(token(draw.logits_row));
      indices.push_back(draw.index);
    }
  }

  bool operator==(const Pieces&) const = default;
};

Pieces Expected(const StepBatch& batch) {
  Pieces all;
  for (const StepBatch::Run& run : batch.runs) {
    if (run.slot < 0) continue;
    for (int64_t i = 0; i < run.count; ++i) {
      all.tokens.push_back(static_cast<int32_t>(run.first + i));
      all.positions.push_back(run.position + i);
    }
    if (!run.draws) continue;
    all.drawn.push_back(all.tokens.back());
    all.indices.push_back(run.position + run.count);
  }
  all.wanted = batch.wanted;
  return all;
}

TEST(PieceCut, PiecesAreTheRowsInOrderButForPadding) {
  std::minstd_rand random(5);
  for (int i = 0; i < 500; ++i) {
    const StepBatch batch = DrawnBatch(random);
    const auto most = static_cast<int64_t>(1 + random() % 20);
    PieceCut cut(most);
    cut.Begin(batch);
    Pieces pieces;
    int64_t before = most;
    while (const PieceCut::Piece* piece = cut.Next()) {
      EXPECT_EQ(before, most) << "one before the last was not full";
      before = piece->batch.rows();
      EXPECT_LE(before, most);
      pieces.Add(*piece);
    }
    EXPECT_TRUE(pieces == Expected(batch)) << i;
  }
}

}  // namespace
}  // namespace mnemon
