// SPDX-License-Identifier: MIT
#include "client/sampling_flags.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

TEST(TakeFlags, LogitBiasTakesNumbersAndInfinity) {
  GenerateOptions options;
  ASSERT_TRUE(
      TakeFlags({.logit_bias = {"7=-2.5", "0=-inf", "12=1e3"}, .time_limit = {}},
                options)
          .ok());
  const std::vector<TokenBias>& biases = options.logit_bias;
  EXPECT_FALSE(options.time_limit);
  ASSERT_EQ(biases.size(), 3u);
  EXPECT_EQ(biases[0].token, 7);
  EXPECT_EQ(biases[0].bias, -2.5f);
  EXPECT_EQ(biases[1].bias, -INFINITY);
  EXPECT_EQ(biases[2].bias, 1000.0f);
}

TEST(TakeFlags, NamesWhatIsWrong) {
  for (const char* wrong : {"", "7", "=1", "7=", "a=1", "7=x", "99999999999=1"}) {
    GenerateOptions options;
    const absl::Status status =
        TakeFlags({.logit_bias = {"1=1", wrong}, .time_limit = {}}, options);
    EXPECT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--logit-bias"));
  }
  for (double wrong : {0.0, -1.0, 1e9, double{NAN}, double{INFINITY}}) {
    GenerateOptions options;
    const absl::Status status =
        TakeFlags({.logit_bias = {}, .time_limit = wrong}, options);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--time-limit"));
  }
}

TEST(TakeFlags, SecondsBecomeAtLeastAMillisecond) {
  GenerateOptions options;
  ASSERT_TRUE(TakeFlags({.logit_bias = {}, .time_limit = 1e-9}, options).ok());
  EXPECT_EQ(options.time_limit, std::chrono::milliseconds(1));
  ASSERT_TRUE(TakeFlags({.logit_bias = {}, .time_limit = 2.5}, options).ok());
  EXPECT_EQ(options.time_limit, std::chrono::milliseconds(2500));
}

}  // namespace
}  // namespace mnemon::client
