// SPDX-License-Identifier: MIT
#include "model/sampling/logprobs.h"

#include <cmath>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ScoreToken, IsTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits = {0.5f, -2, 3, 3, 100};
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit} - 100);
  SamplerScratch scratch;
  for (int32_t token = 0; token < 5; ++token) {
    const auto scored = ScoreToken(logits, token, {}, scratch);
    ASSERT_TRUE(scored.ok());
    EXPECT_EQ(scored->token, token);
    EXPECT_FLOAT_EQ(scored->logprob,
                    static_cast<float>(double{logits[token]} - 100 - std::log(total)));
    EXPECT_TRUE(scored->candidates.empty());
  }
}

TEST(ScoreToken, CandidatesAreTheMostLikelyThenTheNamed) {
  const std::vector<float> logits = {1, 3, 2, 3, -INFINITY};
  SamplerScratch scratch;
  const auto scored =
      ScoreToken(logits, 0, {.most_likely = 3, .ids = {4, 0, 4}}, scratch);
  ASSERT_TRUE(scored.ok());
  std::vector<int32_t> ids;
  for (const TokenCandidate& c : scored->candidates) ids.push_back(c.token);
  EXPECT_THAT(ids, testing::ElementsAre(1, 3, 2, 4, 0, 4));
  EXPECT_EQ(scored->candidates[4].logprob, scored->logprob);
  EXPECT_EQ(scored->candidates[3].logprob, -INFINITY);
  EXPECT_EQ(
      ScoreToken(logits, 0, {.most_likely = 20, .ids = {}}, scratch)->candidates.size(),
      5u);
}

TEST(ScoreToken, LargeLogitsDoNotOverflow) {
  SamplerScratch scratch;
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_FLOAT_EQ(ScoreToken(logits, 1, {}, scratch)->logprob, -std::log(2.0f));
}

TEST(ScoreToken, UnusableLogitsAreInternal) {
  SamplerScratch scratch;
  for (const std::vector<float>& logits : std::vector<std::vector<float>>{
           {1, NAN}, {NAN, 1}, {1, INFINITY}, {-INFINITY, -INFINITY}}) {
    const auto scored = ScoreToken(logits, 0, {}, scratch);
    EXPECT_EQ(scored.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(GetErrorDetail(scored.status())->reason, "NON_FINITE_LOGITS");
  }
}

}  // namespace
}  // namespace mnemon
