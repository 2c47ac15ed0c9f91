// SPDX-License-Identifier: MIT
#include "client/messages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::FloatArray Array(const std::vector<int64_t>& shape, int values) {
  v1::FloatArray array;
  array.mutable_shape()->Add(shape.begin(), shape.end());
  for (int i = 0; i < values; ++i) array.add_values(static_cast<float>(i));
  return array;
}

TEST(PredictResponse, IsReadByItsShape) {
  v1::PredictResponse message;
  *message.mutable_logits() = Array({1, 2, 3}, 6);
  *message.add_maps() = Array({1, 2, 2, 2}, 8);
  const auto result = FromMessage(message);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->logits.shape, ElementsAre(1, 2, 3));
  EXPECT_EQ(result->maps.at(0).values.size(), 8u);
}

TEST(PredictResponse, ShapesThatDoNotFitAreRefused) {
  const std::pair<std::vector<int64_t>, int> wrong[] = {
      {{}, 0},          {{}, 1},        {{6}, 6},
      {{1, 2, 3}, 5},   {{1, 2, 3}, 7}, {{1, 2, 0}, 0},
      {{1, -2, -3}, 6}, {{1, 1, 2}, 0}, {{int64_t{1} << 32, int64_t{1} << 32, 1}, 0},
      {{1, 2, 3, 1}, 6}};
  for (const auto& [shape, values] : wrong) {
    v1::PredictResponse message;
    *message.mutable_logits() = Array(shape, values);
    const absl::Status status = FromMessage(message).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr("values of logits"));
  }
  v1::PredictResponse message;
  *message.mutable_logits() = Array({1, 2, 3}, 6);
  *message.add_maps() = Array({1, 2, 4}, 8);
  EXPECT_THAT(std::string(FromMessage(message).status().message()),
              HasSubstr("8 values of map with the shape [1, 2, 4]"));
}

TEST(GenerateResponse, FactsAreTaken) {
  v1::GenerateResponse message;
  v1::PromptFacts& prompt = *message.mutable_prompt();
  prompt.set_first_index(40);
  prompt.set_token_count(3);
  prompt.mutable_queue_duration()->set_seconds(1);
  prompt.mutable_queue_duration()->set_nanos(500'000'000);
  GenerateResult result;
  EXPECT_FALSE(TakeFacts(message, result));
  EXPECT_EQ(result.resumed_tokens, 40);
  EXPECT_EQ(result.prompt_tokens, 3);
  EXPECT_EQ(result.queue_time, std::chrono::milliseconds(1500));
  result = {};
  prompt.mutable_queue_duration()->set_seconds(INT64_MAX);
  TakeFacts(message, result);
  EXPECT_EQ(result.queue_time.count(), 0);
}

}  // namespace
}  // namespace mnemon::client
