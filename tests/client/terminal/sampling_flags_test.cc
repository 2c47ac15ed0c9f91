// SPDX-License-Identifier: MIT
#include "client/terminal/sampling_flags.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon::client {
namespace {

TEST(TakeFlags, LogitBiasTakesNumbersAndInfinity) {
  SamplingOptions options;
  ASSERT_TRUE(
      TakeFlags(SamplingFlags{.logit_bias = {"7=-2.5", "0=-inf", "12=1e3"}}, options)
          .ok());
  const std::vector<TokenBias>& biases = options.logit_bias;
  ASSERT_EQ(biases.size(), 3u);
  EXPECT_EQ(biases[0].token, 7);
  EXPECT_EQ(biases[0].bias, -2.5f);
  EXPECT_EQ(biases[1].bias, -INFINITY);
  EXPECT_EQ(biases[2].bias, 1000.0f);
}

TEST(TakeFlags, NamesWhatIsWrong) {
  for (const char* wrong : {"", "7", "=1", "7=", "a=1", "7=x", "99999999999=1"}) {
    SamplingOptions options;
    const absl::Status status =
        TakeFlags(SamplingFlags{.logit_bias = {"1=1", wrong}}, options);
    EXPECT_FALSE(status.ok()) << wrong;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--logit-bias"));
  }
  for (double wrong : {0.0, -1.0, 1e9, double{NAN}, double{INFINITY}}) {
    StoppingOptions options;
    const absl::Status status = TakeFlags(StoppingFlags{.time_limit = wrong}, options);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--time-limit"));
  }
}

TEST(TakeFlags, SecondsBecomeAtLeastAMillisecond) {
  StoppingOptions options;
  ASSERT_TRUE(TakeFlags(StoppingFlags{.time_limit = 1e-9}, options).ok());
  EXPECT_EQ(options.time_limit, std::chrono::milliseconds(1));
  ASSERT_TRUE(TakeFlags(StoppingFlags{.time_limit = 2.5}, options).ok());
  EXPECT_EQ(options.time_limit, std::chrono::milliseconds(2500));
}

}  // namespace
}  // namespace mnemon::client
