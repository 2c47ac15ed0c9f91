// SPDX-License-Identifier: MIT
#include "model/sampling/sampling_team.h"

#include <set>
#include <thread>
#include <vector>

#include "base/process/process.h"
#include "gtest/gtest.h"
#include "tests/fakes/flushing_float_mode.h"
#include "tests/model/sampling/sampling_cases.h"

namespace mnemon {
namespace {

constexpr size_t kTeamVocab = 9000;

// Every case, one row after the other.
std::vector<TokenLogprobs> Sampled(SamplingTeam& team, int threads) {
  // Each row is changed by its own thread.
  const std::vector<SamplingParams> params = CaseParams();
  std::vector<std::vector<float>> logits;
  for (size_t row = 0; row < 3 * params.size(); ++row) {
    logits.push_back(CaseLogits(kTeamVocab, row % 3));
  }
  std::vector<TokenLogprobs> results(logits.size());
  std::vector<std::thread::id> by(results.size());
  team.Run(static_cast<int64_t>(results.size()), kTeamVocab,
           [&](int64_t row, SamplerScratch& scratch) {
             const auto r = static_cast<size_t>(row);
             by[r] = std::this_thread::get_id();
             results[r] = RunCase(logits[r], params[r / 3], row, scratch);
           });
  EXPECT_EQ(std::set(by.begin(), by.end()).size(), static_cast<size_t>(threads));
  return results;
}

TEST(SamplingTeam, TokensAreTheSameOnEveryTargetAndNumberOfThreads) {
  SamplingTeam alone(nullptr, SamplingOperationsOf(), kTeamVocab);
  const std::vector<TokenLogprobs> expected = Sampled(alone, 1);
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    for (int threads = 1; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      SamplingTeam team(&pool, operations, kTeamVocab);
      EXPECT_EQ(Sampled(team, threads), expected)
          << operations.target << ", " << threads << " threads";
      EXPECT_EQ(Sampled(team, threads), expected) << "again";
    }
  }
}

TEST(SamplingTeam, FewLogitsStayOnTheCallingThread) {
  ThreadPool pool(3);
  SamplingTeam team(&pool, SamplingOperationsOf(), 1 << 20);
  const auto all_here = [&](int64_t rows, int64_t vocab) {
    int64_t here = 0;
    team.Run(rows, vocab, [&](int64_t, SamplerScratch&) { ++here; });
    return here == rows;
  };
  EXPECT_TRUE(all_here(0, 100));
  EXPECT_TRUE(all_here(1, 1 << 20));
  EXPECT_TRUE(all_here(10, 40));
}

// At the smallest temperature two logits as far apart as subnormal numbers are both
// have a chance; at 0, which flushing would make of it, one has none. 64 rows are for
// the pool, one is for the calling thread.
TEST(SamplingTeam, ComputesWithTheSmallestTemperature) {
  InitProcess();
  ThreadPool pool(2);
  SamplingTeam team(&pool, SamplingOperationsOf(), kTeamVocab);
  std::vector<float> logits(kTeamVocab, -1.0f);
  logits[1] = 0.0f;
  logits[4] = -1e-45f;
  const auto tokens = [&](int64_t rows, int64_t first) {
    std::vector<int32_t> drawn(static_cast<size_t>(rows), -1);
    const SamplingParams params = Rounded({.temperature = 1e-45, .seed = 3});
    team.Run(rows, kTeamVocab, [&](int64_t row, SamplerScratch& scratch) {
      const auto token = Sample(logits, params, first + row, scratch);
      drawn[static_cast<size_t>(row)] = token.value_or(-1);
    });
    return drawn;
  };
  const auto expect_both = [&] {
    const std::vector<int32_t> drawn = tokens(64, 0);
    EXPECT_EQ(std::set(drawn.begin(), drawn.end()), (std::set<int32_t>{1, 4}));
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(tokens(1, static_cast<int64_t>(i)).front(), drawn[i]);
    }
  };
  expect_both();
  const FlushingFloatMode flushing;
  expect_both();
}

}  // namespace
}  // namespace mnemon
