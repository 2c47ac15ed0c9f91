// SPDX-License-Identifier: MIT
// What the choice of tokens asks of the system, from the first row on: nothing but to
// wake and to wait for threads, and no memory but for lists of candidates.
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "bench/kernels/allocation_count.h"
#include "gtest/gtest.h"
#include "model/sampling/logprobs.h"
#include "model/sampling/sampling_team.h"
#include "tests/model/sampling/sampling_cases.h"
#include "tests/model/watch/only_wait.h"

namespace mnemon {
namespace {

constexpr int64_t kVocab = 20000;
constexpr int kAllocated = 3, kFailed = 4;

// Every cut alone at its widest, and all together.
std::vector<SamplingParams> Cases() {
  std::vector<SamplingParams> cases = CaseParams();
  cases.push_back({.top_k = kVocab - 1});
  cases.push_back({.typical_p = 0.9999f});
  cases.push_back({.temperature = 0,
                   .repetition_penalty = 1.5f,
                   .penalty_window_tokens = 65536,
                   .logit_bias = {{7, 1}, {7, 2}}});
  return cases;
}

// Runs in a process of its own: each case once on each thread.
[[noreturn]] void SampleUnderWatch(const SamplingOperations& operations, int threads) {
  const std::vector<SamplingParams> cases = Cases();
  const size_t rows = cases.size() * static_cast<size_t>(threads);
  std::mt19937_64 random(5);
  std::vector<int32_t> history(3 * kVocab);
  for (int32_t& id : history) id = static_cast<int32_t>(random() % kVocab);
  std::vector<std::vector<float>> logits;
  std::vector<PenaltyCounts> counts;
  for (size_t r = 0; r < rows; ++r) {
    logits.push_back(CaseLogits(kVocab, r));
    counts.emplace_back(cases[r / threads], kVocab);
  }
  ThreadPool pool(threads);
  SamplingTeam team(&pool, operations, kVocab);
  std::atomic<bool> failed = false;
  if (!OnlyWait(pool)) _exit(kFailed);
  const AllocationCount before = CountAllocations();
  team.Run(static_cast<int64_t>(rows), kVocab, [&](int64_t row, SamplerScratch& with) {
    const auto r = static_cast<size_t>(row);
    counts[r].Update(history);
    const auto token =
        Sample(logits[r], cases[r / threads], row, with, counts[r].counts());
    if (!token.ok() || !ScoreToken(logits[r], *token, {}, with).ok()) failed = true;
  });
  const bool allocated = (CountAllocations() - before).calls > 0;
  _exit(failed ? kFailed : allocated ? kAllocated : 0);
}

TEST(SamplingCalls, NeitherCallsTheSystemNorAllocates) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  for (const SamplingOperations& operations : AllSamplingOperations()) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(std::string(operations.target) +
                   ", threads: " + std::to_string(threads));
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) SampleUnderWatch(operations, threads);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      EXPECT_FALSE(WIFSIGNALED(status))
          << "killed by signal " << WTERMSIG(status) << ": sampling made a system call";
      EXPECT_EQ(WEXITSTATUS(status), 0) << "3: it allocated; 4: it could not run";
    }
  }
}

TEST(SamplingCalls, AListOfCandidatesIsOneAllocation) {
  if (!CountsAllocations()) GTEST_SKIP() << "allocations are not counted";
  SamplerScratch scratch;
  scratch.Reserve(kVocab);
  const std::vector<float> logits = CaseLogits(kVocab, 3);
  const CandidateChoice choice = {.most_likely = kVocab - 1, .ids = {1, 2}};
  const AllocationCount before = CountAllocations();
  const auto scored = ScoreToken(logits, 5, choice, scratch);
  const AllocationCount after = CountAllocations();
  ASSERT_EQ(scored->candidates.size(), size_t{kVocab} + 1);
  EXPECT_EQ((after - before).calls, 1);
}

// However many tokens come and go: 3 windows of the same different tokens, and others.
TEST(SamplingCalls, PenaltyCountsAllocateWhenTheyAreMadeOnly) {
  if (!CountsAllocations()) GTEST_SKIP() << "allocations are not counted";
  std::mt19937_64 random(6);
  for (const int32_t window : {1, 64, 4096}) {
    for (const int64_t vocab : {5, 3000, 50257}) {
      PenaltyCounts counts({.presence_penalty = 1, .penalty_window_tokens = window},
                           vocab);
      const int64_t bytes = counts.bytes();
      std::vector<int32_t> history(70000);
      for (int32_t& id : history) id = static_cast<int32_t>(random() % vocab);
      const AllocationCount before = CountAllocations();
      for (size_t size = 1; size <= history.size(); ++size)
        counts.Update(history, size);
      EXPECT_EQ((CountAllocations() - before).calls, 0);
      EXPECT_EQ(counts.bytes(), bytes);
    }
  }
}

}  // namespace
}  // namespace mnemon
