// SPDX-License-Identifier: MIT
#include "base/token_bucket.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr TokenBucket::Time kStart{std::chrono::hours(1)};
constexpr nanoseconds kTaken{0};

TEST(TokenBucket, GivesABurstAndThenTheRate) {
  TokenBucket bucket(10, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.Take(kStart), kTaken);
  for (int i = 0; i < 7; ++i) EXPECT_GT(bucket.Take(kStart), kTaken);
  EXPECT_GT(bucket.Take(kStart + milliseconds(90)), kTaken);
  EXPECT_EQ(bucket.Take(kStart + milliseconds(110)), kTaken);
  EXPECT_GT(bucket.Take(kStart + milliseconds(120)), kTaken);
}

TEST(TokenBucket, NamesTheTimeUntilTheNextToken) {
  TokenBucket bucket(4, 1);
  EXPECT_EQ(bucket.Take(kStart), kTaken);
  const nanoseconds wait = bucket.Take(kStart);
  EXPECT_GE(wait, milliseconds(250));
  EXPECT_LT(wait, milliseconds(251));
  EXPECT_GT(bucket.Take(kStart + wait - milliseconds(1)), kTaken);
  EXPECT_EQ(bucket.Take(kStart + wait + nanoseconds(1)), kTaken);
}

TEST(TokenBucket, TheTimeIsBounded) {
  TokenBucket bucket(1e-300, 1);
  EXPECT_EQ(bucket.Take(kStart), kTaken);
  EXPECT_EQ(bucket.Take(kStart), std::chrono::hours(24));
}

TEST(TokenBucket, SavesNoMoreThanABurst) {
  TokenBucket bucket(10, 2);
  EXPECT_EQ(bucket.Take(kStart), kTaken);
  const TokenBucket::Time later = kStart + std::chrono::hours(10);
  EXPECT_EQ(bucket.Take(later), kTaken);
  EXPECT_EQ(bucket.Take(later), kTaken);
  EXPECT_GT(bucket.Take(later), kTaken);
}

TEST(TokenBucket, IgnoresTimeThatRunsBackwards) {
  TokenBucket bucket(10, 1);
  EXPECT_EQ(bucket.Take(kStart), kTaken);
  EXPECT_GT(bucket.Take(kStart - std::chrono::hours(1)), kTaken);
  EXPECT_GT(bucket.Take(kStart), kTaken);
}

}  // namespace
}  // namespace mnemon
