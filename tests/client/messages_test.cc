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

}  // namespace
}  // namespace mnemon::client
