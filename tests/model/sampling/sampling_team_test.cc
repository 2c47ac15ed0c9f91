// SPDX-License-Identifier: MIT
#include "model/sampling/sampling_team.h"

#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/sampling/sampling_cases.h"

namespace mnemon {
namespace {

constexpr size_t kVocab = 9000;

// Every case, one row after the other.
std::vector<TokenLogprobs> Sampled(SamplingTeam& team, int threads) {
  // Each row is changed by its own thread.
  const std::vector<SamplingParams> params = CaseParams();
  std::vector<std::vector<float>> logits;
  for (size_t row = 0; row < 3 * params.size(); ++row) {
    logits.push_back(CaseLogits(kVocab, row % 3));
  }
  std::vector<TokenLogprobs> results(logits.size());
  std::vector<std::thread::id> by(results.size());
  team.Run(static_cast<int64_t>(results.size()), kVocab,
           [&](int64_t row, SamplerScratch& scratch) {
             const auto r = static_cast<size_t>(row);
             by[r] = std::this_thread::get_id();
             results[r] = RunCase(logits[r], params[r / 3], row, scratch);
           });
  EXPECT_EQ(std::set(by.begin(), by.end()).size(), static_cast<size_t>(threads));
  return results;
}

TEST(SamplingTeam, TokensAreTheSameOnEveryTargetAndNumberOfThreads) {
  SamplingTeam alone(nullptr, SamplingOperationsOf(), kVocab);
  const std::vector<TokenLogprobs> expected = Sampled(alone, 1);
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    for (int threads = 1; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      SamplingTeam team(&pool, operations, kVocab);
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

}  // namespace
}  // namespace mnemon
