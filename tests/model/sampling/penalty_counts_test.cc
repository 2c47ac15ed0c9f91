// SPDX-License-Identifier: MIT
#include "model/sampling/penalty_counts.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

SamplingParams Penalty(int32_t window) {
  return {.presence_penalty = 1, .penalty_window_tokens = window};
}

std::map<int32_t, int32_t> Counted(const PenaltyCounts& counts) {
  std::map<int32_t, int32_t> result;
  for (const auto [token, count] : counts.counts()) {
    EXPECT_GT(count, 0);
    EXPECT_TRUE(result.emplace(token, count).second) << "twice: " << token;
  }
  return result;
}

TEST(PenaltyCounts, CountsTheWindowOnly) {
  PenaltyCounts counts(Penalty(3), 10);
  EXPECT_THAT(counts.counts(), IsEmpty());
  counts.Update(std::vector<int32_t>{7, 5});
  EXPECT_THAT(counts.counts(),
              UnorderedElementsAre(TokenCount{7, 1}, TokenCount{5, 1}));
  counts.Update(std::vector<int32_t>{7, 5, 5, 9});
  EXPECT_THAT(counts.counts(),
              UnorderedElementsAre(TokenCount{5, 2}, TokenCount{9, 1}));
}

TEST(PenaltyCounts, CountsNothingWithoutPenalties) {
  const std::vector<int32_t> history = {1, 2, 3};
  for (const SamplingParams& params :
       {SamplingParams{}, SamplingParams{.temperature = 0, .top_k = 3}, Penalty(0)}) {
    PenaltyCounts counts(params, 10);
    counts.Update(history);
    EXPECT_THAT(counts.counts(), IsEmpty());
  }
  for (const SamplingParams& params : {SamplingParams{.repetition_penalty = 2},
                                       SamplingParams{.frequency_penalty = -1},
                                       SamplingParams{.presence_penalty = 1}}) {
    PenaltyCounts counts(params, 10);
    counts.Update(history);
    EXPECT_EQ(counts.counts().size(), 3u);
  }
}

TEST(PenaltyCounts, FollowsAHistoryThatGrowsAndIsCut) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const auto window = static_cast<int32_t>(random() % 40);
    PenaltyCounts counts(Penalty(window), 12);
    std::vector<int32_t> history;
    for (int update = 0; update < 60; ++update) {
      if (random() % 5 == 0) {
        history.resize(random() % (history.size() + 1));
      } else {
        for (size_t i = random() % 30; i > 0; --i) history.push_back(random() % 12);
      }
      counts.Update(history);
      std::map<int32_t, int32_t> expected;
      const size_t size = std::min<size_t>(history.size(), window);
      for (size_t i = history.size() - size; i < history.size(); ++i) {
        ++expected[history[i]];
      }
      ASSERT_EQ(Counted(counts), expected);
    }
  }
}

}  // namespace
}  // namespace mnemon
