// SPDX-License-Identifier: MIT
#include "model/sampling/logprobs.h"

#include <cmath>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(JudgeToken, IsTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits = {0.5f, -2, 3, 3, 100};
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit} - 100);
  SamplerScratch scratch;
  for (int32_t token = 0; token < 5; ++token) {
    const auto judged = JudgeToken(logits, token, {}, scratch);
    ASSERT_TRUE(judged.ok());
    EXPECT_EQ(judged->token, token);
    EXPECT_FLOAT_EQ(judged->logprob,
                    static_cast<float>(double{logits[token]} - 100 - std::log(total)));
    EXPECT_TRUE(judged->candidates.empty());
  }
}

TEST(JudgeToken, CandidatesAreTheMostLikelyThenTheNamed) {
  const std::vector<float> logits = {1, 3, 2, 3, -INFINITY};
  SamplerScratch scratch;
  const auto judged =
      JudgeToken(logits, 0, {.most_likely = 3, .ids = {4, 0, 4}}, scratch);
  ASSERT_TRUE(judged.ok());
  std::vector<int32_t> ids;
  for (const TokenCandidate& c : judged->candidates) ids.push_back(c.token);
  EXPECT_THAT(ids, testing::ElementsAre(1, 3, 2, 4, 0, 4));
  EXPECT_EQ(judged->candidates[4].logprob, judged->logprob);
  EXPECT_EQ(judged->candidates[3].logprob, -INFINITY);
  EXPECT_EQ(
      JudgeToken(logits, 0, {.most_likely = 20, .ids = {}}, scratch)->candidates.size(),
      5u);
}

TEST(JudgeToken, LargeLogitsDoNotOverflow) {
  SamplerScratch scratch;
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_FLOAT_EQ(JudgeToken(logits, 1, {}, scratch)->logprob, -std::log(2.0f));
}

TEST(JudgeToken, UnusableLogitsAreInternal) {
  SamplerScratch scratch;
  for (const std::vector<float>& logits : std::vector<std::vector<float>>{
           {1, NAN}, {NAN, 1}, {1, INFINITY}, {-INFINITY, -INFINITY}}) {
    const auto judged = JudgeToken(logits, 0, {}, scratch);
    EXPECT_EQ(judged.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(GetErrorDetail(judged.status())->reason, "NON_FINITE_LOGITS");
  }
}

}  // namespace
}  // namespace mnemon
