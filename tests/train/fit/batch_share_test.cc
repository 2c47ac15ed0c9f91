// SPDX-License-Identifier: MIT
#include "train/fit/batch_share.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/thread_group.h"
#include "train/parallel/flat_operations.h"

namespace mnemon {
namespace {

// Whatever the numbers of rows, shards and processes: the shards of a batch, each once.
TEST(BatchShare, ProcessesHaveAllShardsInOrder) {
  for (const int processes : {1, 2, 4, 8}) {
    for (int64_t rows = 1; rows < 20; ++rows) {
      for (int64_t shards = 1; shards < 20; ++shards) {
        const int64_t count = std::min(rows, shards);
        int64_t next = 0, next_row = 0;
        for (int p = 0; p < processes; ++p) {
          const Shards own = {
              .sequences = rows, .count = count, .own = NodeOf(count, p, processes)};
          if (own.own.size() == 0) continue;
          EXPECT_EQ(own.own.begin, next);
          EXPECT_EQ(own.OwnSequences().begin, next_row);
          next = own.own.end;
          next_row = own.OwnSequences().end;
          int64_t row = 0;
          for (int64_t s = 0; s < own.own.size(); ++s) {
            const Part whole = PartOf(rows, own.own.begin + s, count);
            EXPECT_EQ(own.SequencesOf(s).begin, row);
            EXPECT_EQ(own.SequencesOf(s).size(), whole.size());
            row = own.SequencesOf(s).end;
          }
        }
        EXPECT_EQ(next, count);
        EXPECT_EQ(next_row, rows);
      }
    }
  }
}

// Losses whose sum depends on the order: ((a + b) + (c + d)).
TEST(BatchShare, LossesMeetInTheirTree) {
  RunAsProcesses(4, [](ProcessGroup& group) {
    const BatchShare share(group, 4);
    const double nats[] = {0x1p53, 1.0, -0x1p53, 1.0};
    const auto joined = share.Join(
        {{.positions = 1, .nats = nats[group.rank()]}, {.positions = 1, .nats = 1.0}},
        {4, 3});
    ASSERT_TRUE(joined.ok());
    EXPECT_EQ((*joined)[0].nats, (0x1p53 + 1.0) + (-0x1p53 + 1.0));
    EXPECT_EQ((*joined)[0].positions, 4);
    EXPECT_EQ((*joined)[1].positions, 3);
  });
}

TEST(BatchShare, RowsOfAllAreThoseOfTheBatch) {
  RunAsProcesses(4, [](ProcessGroup& group) {
    const BatchShare share(group, 5);
    const at::Tensor whole = at::arange(0, 14, at::kFloat).view({7, 2});
    const Part own = share.ShardsOf(7).OwnSequences();
    const auto joined = share.JoinRows(whole.narrow(0, own.begin, own.size()), 7);
    ASSERT_TRUE(joined.ok());
    EXPECT_TRUE(joined->equal(whole));
  });
}

// Blocks that one process alone has written; those of an earlier batch count for
// nothing; a process without rows has no part.
TEST(BatchShare, SumsOfAllProcessesMeet) {
  constexpr int64_t kBlocks = 9;
  RunAsProcesses(4, [](ProcessGroup& group) {
    const BatchShare share(group, 4);
    const int64_t size = (kBlocks - 1) * kFlatBlock + 5;
    for (const int64_t rows : {4, 3}) {
      at::Tensor sums = at::full({size}, 100.0, at::kFloat);  // of an earlier batch
      std::vector<int64_t> blocks;
      for (int64_t b = 0; b < kBlocks; ++b) {
        if (b % 2 == 1 || (b == 4) != (group.rank() == 1)) continue;
        blocks.push_back(b);
        const int64_t end = std::min(size, (b + 1) * kFlatBlock);
        sums.narrow(0, b * kFlatBlock, end - b * kFlatBlock).fill_(1.0 + group.rank());
      }
      ASSERT_TRUE(share.JoinSums(sums, blocks, rows).ok());
      EXPECT_THAT(blocks, testing::ElementsAre(0, 2, 4, 6, 8));
      for (int64_t b = 0; b < kBlocks; ++b) {
        const float found = sums[b * kFlatBlock + 4].item<float>();
        const float others = rows == 4 ? 1.0f + 3 + 4 : 1.0f + 3;
        EXPECT_EQ(found, b % 2 == 1 ? 100 : b == 4 ? 2 : others) << b;
      }
    }
  });
}

}  // namespace
}  // namespace mnemon
