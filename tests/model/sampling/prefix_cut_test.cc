// SPDX-License-Identifier: MIT
#include "model/sampling/prefix_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "model/sampling/fixed_point.h"

namespace mnemon {
namespace {

TEST(CeilOfShare, IsExact) {
  EXPECT_EQ(CeilOfShare(1, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(CeilOfShare(0, UINT64_MAX), 0u);
  EXPECT_EQ(CeilOfShare(0.5f, 7), 4u);
  EXPECT_EQ(CeilOfShare(0.5f, 8), 4u);
  EXPECT_EQ(CeilOfShare(0x1.fffffep-1f, UINT64_MAX),
            UINT64_MAX - (uint64_t{1} << 40) + 1);
  EXPECT_EQ(CeilOfShare(1e-45f, UINT64_MAX), 1u);
  EXPECT_EQ(CeilOfShare(1e-45f, 0), 0u);
  EXPECT_EQ(CeilOfShare(0x1p-60f, uint64_t{1} << 62), 4u);
  EXPECT_EQ(CeilOfShare(0x1p-60f, (uint64_t{1} << 62) + 1), 5u);
}

TEST(FloorOfFraction, IsBelowTheTotal) {
  EXPECT_EQ(FloorOfFraction(0, UINT64_MAX), 0u);
  EXPECT_EQ(FloorOfFraction(UINT64_MAX, 1), 0u);
  EXPECT_EQ(FloorOfFraction(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
  EXPECT_EQ(FloorOfFraction(uint64_t{1} << 63, 10), 5u);
}

std::vector<float> Scores(std::mt19937_64& random, size_t size, int kind) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const std::vector<float> special = {0.0f,   -0.0f,     1e-45f, -1e-45f, kMost,
                                      -kMost, -INFINITY, 1,      -1};
  std::vector<float> scores(size);
  for (float& score : scores) {
    const float number = std::normal_distribution<float>()(random);
    score = kind == 0   ? special[random() % special.size()]
            : kind == 1 ? number
            : kind == 2 ? std::ldexp(number, static_cast<int>(random() % 200) - 100)
            : kind == 3 ? 100 + 1e-4f * number
                        : 1.0f;
  }
  return scores;
}

// The positions in the order of the scores.
std::vector<int32_t> Sorted(const std::vector<float>& scores) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  return order;
}

void ExpectPrefix(const std::vector<float>& scores, PrefixEnd end,
                  std::vector<int32_t> expected) {
  ASSERT_EQ(end.position, expected.back());
  ASSERT_EQ(end.score, scores[expected.back()]);
  std::sort(expected.begin(), expected.end());
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    Positions listed;
    ListPrefix(operations, scores, end, listed);
    ASSERT_EQ(std::vector<int32_t>(listed.begin(), listed.end()), expected)
        << operations.target;
  }
}

TEST(PrefixCut, IsTheBeginOfTheSortedTokens) {
  std::mt19937_64 random(4);
  Positions spare;
  for (const size_t size : {1, 2, 17, 256, 257, 3000, 20000}) {
    for (int kind = 0; kind < 5; ++kind) {
      const std::vector<float> scores = Scores(random, size, kind);
      const std::vector<int32_t> order = Sorted(scores);
      std::vector<uint64_t> weights(size);
      for (uint64_t& weight : weights) {
        weight = random() % 4 == 0 ? 0 : random() >> (24 + random() % 30);
      }
      weights[order[0]] += 5;
      uint64_t total = 0;
      for (const uint64_t weight : weights) total += weight;
      for (const uint64_t target : {uint64_t{0}, uint64_t{1}, total / 9, total / 2,
                                    total - total / 50, total}) {
        size_t count = 0;
        uint64_t sum = 0;
        do sum += weights[order[count++]];
        while (sum < target);
        ExpectPrefix(scores, FindPrefixByWeight(scores, weights, target, spare),
                     {order.begin(), order.begin() + static_cast<ptrdiff_t>(count)});
        if (HasFatalFailure()) return;
      }
      for (const size_t count : {size_t{1}, size / 3 + 1, size}) {
        for (const SamplingOperations& operations : AllSamplingOperations()) {
          ExpectPrefix(scores, FindPrefixByCount(operations, scores, count, spare),
                       {order.begin(), order.begin() + static_cast<ptrdiff_t>(count)});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mnemon
