// SPDX-License-Identifier: MIT
#include "server/engine/scheduler.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/kernels/kernels.h"

namespace mnemon {
namespace {

constexpr int64_t kMany = 1'000'000;

std::vector<int64_t> TokensOf(const std::vector<Planned>& plan, size_t candidates) {
  std::vector<int64_t> tokens(candidates, -1);
  for (const Planned& p : plan) tokens[p.candidate] = p.tokens;
  return tokens;
}

std::vector<int64_t> Plan(const std::vector<Candidate>& candidates, int64_t last_served,
                          const StepBudget& budget) {
  return TokensOf(PlanStep(candidates, last_served, budget), candidates.size());
}

TEST(PlanStep, UsesTheModelLibrarysSizes) {
  EXPECT_EQ(StepBudget{}.chunk, kMaxChunk);
  EXPECT_EQ(StepBudget{}.block_positions, kBlockPositions);
}

TEST(PlanStep, NothingToDo) {
  EXPECT_TRUE(PlanStep({}, -1, {}).empty());
  EXPECT_EQ(Plan({{.unfed = 1, .paused = true}}, -1, {}), std::vector<int64_t>({-1}));
}

TEST(PlanStep, DecodingNeverWaitsForPrompts) {
  EXPECT_EQ(Plan({{.unfed = 500}, {.unfed = 1}, {.unfed = 500}, {.unfed = 1}}, -1,
                 {.tokens = 4}),
            std::vector<int64_t>({1, 1, 1, 1}));
  EXPECT_EQ(Plan({{.unfed = 500}, {.unfed = 1}}, -1, {.tokens = 1}),
            std::vector<int64_t>({1, 1}));
}

TEST(PlanStep, PromptsTakeTurns) {
  const std::vector<Candidate> prompts = {
      {.unfed = 500}, {.unfed = 500}, {.unfed = 500}};
  EXPECT_EQ(Plan(prompts, -1, {.tokens = 66}), std::vector<int64_t>({64, 1, 1}));
  EXPECT_EQ(Plan(prompts, 0, {.tokens = 66}), std::vector<int64_t>({1, 64, 1}));
  EXPECT_EQ(Plan(prompts, 1, {.tokens = 66}), std::vector<int64_t>({1, 1, 64}));
  EXPECT_EQ(Plan(prompts, 2, {.tokens = 66}), std::vector<int64_t>({64, 1, 1}));
}

TEST(PlanStep, BlocksGoToDecodingFirstAndCutPromptsShort) {
  const std::vector<Candidate> candidates = {
      {.unfed = 100, .free_in_block = 3},
      {.unfed = 1, .free_in_block = 0},
      {.unfed = 1, .free_in_block = 5},
  };
  EXPECT_EQ(Plan(candidates, -1, {.blocks = 3}), std::vector<int64_t>({35, 1, 1}));
  EXPECT_EQ(Plan(candidates, -1, {.blocks = 1}), std::vector<int64_t>({3, 1, 1}));
  EXPECT_EQ(Plan(candidates, -1, {.blocks = 0}), std::vector<int64_t>({3, 0, 1}));
}

TEST(PlanStep, KeepsItsPromisesForRandomCandidates) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Candidate> candidates(random() % 20);
    for (Candidate& c : candidates) {
      c.unfed = random() % 3 ? 1 : 1 + random() % 300;
      c.paused = random() % 4 == 0;
      if (random() % 3) c.free_in_block = random() % 17;
    }
    StepBudget budget{.blocks = kMany};
    budget.tokens = 1 + random() % 300;
    if (random() % 3 == 0) budget.blocks = random() % 8;
    const auto plan =
        PlanStep(candidates, static_cast<int64_t>(random() % 21) - 1, budget);
    int64_t blocks = 0, tokens = 0, unpaused = 0, starved = 0;
    for (size_t i = 0; i < plan.size(); ++i) {
      if (i > 0) {
        ASSERT_LT(plan[i - 1].candidate, plan[i].candidate);
      }
      const Candidate& c = candidates[plan[i].candidate];
      ASSERT_FALSE(c.paused);
      ASSERT_LE(plan[i].tokens, std::min(c.unfed, budget.chunk));
      tokens += plan[i].tokens;
      starved += plan[i].tokens == 0;
      if (plan[i].tokens > c.free_in_block) {
        blocks += (plan[i].tokens - c.free_in_block + 15) / 16;
      }
      if (plan[i].tokens == 0) {
        ASSERT_EQ(c.free_in_block, 0);
      }
    }
    for (const Candidate& c : candidates) unpaused += !c.paused;
    ASSERT_EQ(static_cast<int64_t>(plan.size()), unpaused);
    ASSERT_LE(blocks, budget.blocks);
    ASSERT_LE(tokens, std::max(budget.tokens, unpaused));
    // Somebody goes without only when the blocks are really used up.
    if (starved > 0) {
      ASSERT_EQ(blocks, budget.blocks);
    }
  }
}

}  // namespace
}  // namespace mnemon
