// SPDX-License-Identifier: MIT
#include "client/load/call_draw.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

TEST(CallDraw, ReadsRanges) {
  EXPECT_EQ(*ParseTokenRange("64", 100), (TokenRange{64, 64}));
  EXPECT_EQ(*ParseTokenRange("32-100", 100), (TokenRange{32, 100}));
  EXPECT_EQ(TokenRangeText({32, 100}), "32-100");
  EXPECT_EQ(TokenRangeText({64, 64}), "64");
  for (const char* const text :
       {"", "0", "-1", "a", "1-", "-", "9-8", "1-101", "101", "1-2-3", "1.5"}) {
    const auto range = ParseTokenRange(text, 100);
    ASSERT_FALSE(range.ok()) << text;
    EXPECT_THAT(range.status().message(), HasSubstr("32-128"));
  }
}

TEST(CallDraw, StaysWithinRangesAndVocabulary) {
  const DrawOptions options{
      .seed = 1, .vocab = 5, .prompt_tokens = {2, 4}, .max_tokens = {7, 8}};
  std::set<size_t> lengths;
  std::set<int32_t> most, tokens;
  for (int64_t number = -50; number < 50; ++number) {
    const CallDraw draw = DrawCall(options, number);
    EXPECT_THAT(draw.prompt, Each(AllOf(Ge(0), Lt(5))));
    lengths.insert(draw.prompt.size());
    most.insert(draw.max_tokens);
    tokens.insert(draw.prompt.begin(), draw.prompt.end());
  }
  EXPECT_EQ(lengths, (std::set<size_t>{2, 3, 4}));
  EXPECT_EQ(most, (std::set<int32_t>{7, 8}));
  EXPECT_EQ(tokens.size(), 5u);
}

TEST(CallDraw, IsAFunctionOfSeedAndNumber) {
  DrawOptions options{
      .seed = 1, .vocab = 1000, .prompt_tokens = {8, 8}, .max_tokens = {1, 1}};
  const CallDraw draw = DrawCall(options, 3);
  EXPECT_EQ(draw.prompt, DrawCall(options, 3).prompt);
  EXPECT_EQ(draw.seed, DrawCall(options, 3).seed);
  EXPECT_NE(draw.prompt, DrawCall(options, 4).prompt);
  options.seed = 2;
  EXPECT_NE(draw.prompt, DrawCall(options, 3).prompt);
}

}  // namespace
}  // namespace mnemon::client
