// SPDX-License-Identifier: MIT
#include "train/run/training_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(TrainingState, ReadsBackEveryBit) {
  TrainingState state;
  state.steps = 12345678901;
  state.planned = 99999999999;
  state.tokens = 123456789012345;
  state.numerics = "libtorch 1, AVX2";
  state.text_sha256 = "abc";
  state.seconds = 0.1 + 0.2;
  state.loss_sum = 1.0 / 3.0;
  state.best_validation = 1e-300;
  auto back = ParseTrainingState(FormatTrainingState(state), "state.json");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(FormatTrainingState(*back), FormatTrainingState(state));
  EXPECT_EQ(back->loss_sum, state.loss_sum);
  EXPECT_EQ(back->seconds, state.seconds);
  EXPECT_EQ(back->tokens, state.tokens);
}

TEST(TrainingState, RunsOfEarlierVersionsGoOn) {
  TrainingState state;
  state.next_stage = 3;
  state.tokens = 7;
  std::string text = FormatTrainingState(state);
  for (const char* const key : {"\"next_stage\"", "\"tokens\""}) {
    const size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos);
    text.erase(at, text.find('\n', at) - at);
  }
  const auto before = ParseTrainingState(text, "state.json");
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(before->next_stage, 0);
  EXPECT_FALSE(before->tokens.has_value());
  // And are saved by this one.
  const auto again = ParseTrainingState(FormatTrainingState(*before), "state.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->tokens.has_value());
}

TEST(TrainingState, RefusesWhatItDidNotWrite) {
  std::string text = FormatTrainingState({});
  const auto without = [&](std::string key, std::string with) {
    std::string changed = text;
    size_t at = changed.find("\"" + key + "\"");
    changed.replace(at, changed.find('\n', at) - at, "\"" + key + "\": " + with + ",");
    return ParseTrainingState(changed, "state.json").status();
  };
  EXPECT_TRUE(without("steps", "3").ok());
  EXPECT_FALSE(without("steps", "-3").ok());
  EXPECT_FALSE(without("steps", "\"3\"").ok());
  EXPECT_FALSE(without("loss_sum", "null").ok());
  EXPECT_FALSE(without("tokens", "-3").ok());
  const absl::Status status =
      ParseTrainingState("{\"steps\": 1}", "x/state.json").status();
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("x/state.json"));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("planned"));
  EXPECT_FALSE(ParseTrainingState("[]", "x").ok());
  EXPECT_FALSE(ParseTrainingState("", "x").ok());
}

}  // namespace
}  // namespace mnemon
