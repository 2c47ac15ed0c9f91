// SPDX-License-Identifier: MIT
#include "server/run/scheduler.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/compute/kernels.h"

namespace mnemon {
namespace {

constexpr int64_t kMany = 1'000'000;

StepBudget Blocks(int64_t blocks) {
  return {.free_blocks = blocks, .unreserved_blocks = blocks};
}

std::vector<int64_t> Schedule(std::vector<ScheduledChunk> chunks,
                              const StepBudget& budget) {
  ScheduleStep(chunks, budget);
  std::vector<int64_t> counts;
  for (const ScheduledChunk& chunk : chunks) counts.push_back(chunk.count);
  return counts;
}

TEST(ScheduleStep, UsesTheModelLibrarysSizes) {
  EXPECT_EQ(StepBudget{}.chunk, kMaxChunk);
  EXPECT_EQ(StepBudget{}.block_positions, kBlockPositions);
}

TEST(ScheduleStep, NothingToDo) { EXPECT_TRUE(Schedule({}, {}).empty()); }

TEST(ScheduleStep, DecodingNeverWaitsForPrompts) {
  EXPECT_EQ(
      Schedule({{.available = 500}, {.available = 1}, {.available = 1}}, {.tokens = 2}),
      std::vector<int64_t>({2, 1, 1}));
  EXPECT_EQ(Schedule({{.available = 500}, {.available = 1}}, {.tokens = 256}),
            std::vector<int64_t>({64, 1}));
}

TEST(ScheduleStep, PromptsNeverWaitForDecoding) {
  std::vector<ScheduledChunk> chunks(300, {.available = 1});
  chunks.push_back({.available = 500});
  ScheduleStep(chunks, {});
  EXPECT_EQ(chunks.back().count, 64);
}

TEST(ScheduleStep, ThePromptServedLeastIsFirst) {
  EXPECT_EQ(Schedule({{.available = 500, .prefill_served = 64},
                      {.available = 500, .prefill_served = 0},
                      {.available = 500, .prefill_served = 3}},
                     {.tokens = 70}),
            std::vector<int64_t>({0, 64, 6}));
}

// No prompt is ever more than one chunk ahead of others that wait with it, whatever the
// budget leaves for them.
TEST(ScheduleStep, PromptsAreServedEvenly) {
  for (const int prompts : {2, 5, 10, 64}) {
    for (const int decoding : {0, 1, 17, 255}) {
      std::vector<ScheduledChunk> chunks(prompts, {.available = kMany});
      chunks.resize(prompts + decoding, {.available = 1});
      std::vector<int64_t> served(prompts);
      for (int step = 0; step < 40 * prompts; ++step) {
        for (int i = 0; i < prompts; ++i) chunks[i].prefill_served = served[i];
        ScheduleStep(chunks, {});
        for (int i = 0; i < prompts; ++i) served[i] += chunks[i].count;
        const auto [least, most] = std::minmax_element(served.begin(), served.end());
        ASSERT_LE(*most - *least, StepBudget{}.chunk);
      }
      const auto [least, most] = std::minmax_element(served.begin(), served.end());
      EXPECT_LE(static_cast<double>(*most), 1.2 * static_cast<double>(*least))
          << prompts << " prompts beside " << decoding;
    }
  }
}

TEST(ScheduleStep, BlocksGoToDecodingFirstAndCutPromptsShort) {
  const std::vector<ScheduledChunk> chunks = {
      {.available = 100, .free_positions = 3},
      {.available = 1, .free_positions = 0},
      {.available = 1, .free_positions = 5},
  };
  EXPECT_EQ(Schedule(chunks, Blocks(3)), std::vector<int64_t>({35, 1, 1}));
  EXPECT_EQ(Schedule(chunks, Blocks(1)), std::vector<int64_t>({3, 1, 1}));
  EXPECT_EQ(Schedule(chunks, Blocks(0)), std::vector<int64_t>({3, 0, 1}));
}

TEST(ScheduleStep, ABlockThatIsReplacedByACopyGivesOnlyWhatIsLeftOfIt) {
  const std::vector<ScheduledChunk> chunks = {{.available = 64, .free_positions = -8}};
  EXPECT_EQ(Schedule(chunks, Blocks(5)), std::vector<int64_t>({64}));
  EXPECT_EQ(Schedule(chunks, Blocks(4)), std::vector<int64_t>({56}));
  EXPECT_EQ(Schedule(chunks, Blocks(1)), std::vector<int64_t>({8}));
  EXPECT_EQ(Schedule(chunks, Blocks(0)), std::vector<int64_t>({0}));
}

TEST(ScheduleStep, ReservedBlocksAreThereWhenThePoolIsEmpty) {
  std::vector<ScheduledChunk> chunks = {
      {.available = 100, .free_positions = 0, .reserved_blocks = 2},
      {.available = 1, .free_positions = 0},
  };
  ScheduleStep(chunks, {.free_blocks = 5});
  EXPECT_EQ(chunks[0].count, 32);
  EXPECT_FALSE(chunks[0].starved);
  EXPECT_EQ(chunks[1].count, 0);
  EXPECT_TRUE(chunks[1].starved);
  // Blocks that are on their way back are not there yet.
  ScheduleStep(chunks, {.free_blocks = 1});
  EXPECT_EQ(chunks[0].count, 16);
}

TEST(ScheduleStep, KeepsItsBoundsForRandomChunks) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::vector<ScheduledChunk> chunks(random() % 20);
    for (ScheduledChunk& c : chunks) {
      c.available = random() % 3 ? 1 : 1 + random() % 300;
      c.prefill_served = random() % 500;
      if (random() % 3) c.free_positions = static_cast<int64_t>(random() % 32) - 15;
      if (random() % 4 == 0) c.reserved_blocks = random() % 5;
    }
    StepBudget budget = Blocks(kMany);
    budget.tokens = 1 + random() % 300;
    if (random() % 3 == 0) budget.unreserved_blocks = random() % 8;
    if (random() % 5 == 0) budget.free_blocks = random() % 8;
    ScheduleStep(chunks, budget);
    int64_t blocks = 0, all_blocks = 0, tokens = 0, decoding = 0, starved = 0;
    for (const ScheduledChunk& c : chunks) {
      ASSERT_LE(c.count, std::min(c.available, budget.chunk));
      tokens += c.count;
      decoding += c.available == 1;
      starved += c.starved;
      if (c.count > 0 && c.count > c.free_positions) {
        const int64_t needed = (c.count - c.free_positions + 15) / 16;
        blocks += std::max<int64_t>(0, needed - c.reserved_blocks);
        all_blocks += needed;
      }
      if (c.available == 1) {
        ASSERT_TRUE(c.count == 1 || c.starved);
      }
      if (c.starved) {
        ASSERT_LE(c.free_positions, 0);
      }
    }
    ASSERT_LE(blocks, budget.unreserved_blocks);
    ASSERT_LE(all_blocks, budget.free_blocks);
    ASSERT_LE(tokens, std::max(budget.tokens, decoding + budget.chunk));
    // Somebody goes without only when the blocks are really used up.
    if (starved > 0) {
      ASSERT_TRUE(blocks == budget.unreserved_blocks ||
                  all_blocks == budget.free_blocks);
    }
  }
}

}  // namespace
}  // namespace mnemon
