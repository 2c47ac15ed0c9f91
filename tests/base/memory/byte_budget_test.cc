// SPDX-License-Identifier: MIT
#include "base/memory/byte_budget.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ByteBudget, AccountsDrawFromOneLimit) {
  ByteBudget budget(100);
  ByteAccount a(budget), b(budget);
  EXPECT_TRUE(a.TryTake(60));
  EXPECT_FALSE(b.TryTake(41));
  EXPECT_EQ(b.bytes(), 0);
  EXPECT_TRUE(b.TryTake(40));
  EXPECT_FALSE(a.TryTake(1));
  EXPECT_FALSE(a.TryTake(ByteBudget::kUnlimited));
  EXPECT_FALSE(budget.exhausted());
  a.Take(5);
  EXPECT_TRUE(budget.exhausted());
  EXPECT_EQ(a.bytes(), 65);
  EXPECT_EQ(budget.used(), 105);
  a.Return(65);
  EXPECT_EQ(budget.used(), 40);
  EXPECT_TRUE(b.TryTake(60));
}

TEST(ByteBudget, AShareDrawsFromTheWhole) {
  ByteBudget whole(100);
  ByteBudget share(60, &whole);
  ByteAccount in_share(share), other(whole);
  EXPECT_FALSE(in_share.TryTake(61));
  EXPECT_EQ(whole.used(), 0);
  EXPECT_TRUE(in_share.TryTake(60));
  EXPECT_EQ(whole.used(), 60);
  EXPECT_TRUE(other.TryTake(40));
  in_share.Return(60);
  EXPECT_TRUE(other.TryTake(50));
  // What the whole does not have is not taken from the share either.
  EXPECT_FALSE(in_share.TryTake(20));
  EXPECT_EQ(share.used(), 0);
  EXPECT_FALSE(share.exhausted());
  other.Take(20);
  EXPECT_TRUE(share.exhausted());
}

TEST(ByteBudget, WithoutALimitOnlyCounts) {
  ByteBudget budget(ByteBudget::kUnlimited);
  ByteAccount account(budget);
  EXPECT_TRUE(account.TryTake(int64_t{1} << 60));
  EXPECT_EQ(account.bytes(), int64_t{1} << 60);
}

TEST(ByteBudget, ThreadsNeverGetMoreThanThereIs) {
  constexpr int kThreads = 4, kRounds = 20'000;
  ByteBudget budget(3);
  ByteAccount account(budget);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        if (!account.TryTake(1)) continue;
        EXPECT_LE(budget.used(), 3);
        account.Return(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(account.bytes(), 0);
}

TEST(ByteCharge, GivesBackWhatItHas) {
  ByteBudget budget(100);
  const auto account = std::make_shared<ByteAccount>(budget);
  {
    ByteCharge charge(account);
    EXPECT_TRUE(charge.TrySet(80));
    EXPECT_FALSE(charge.TrySet(101));
    EXPECT_EQ(charge.bytes(), 80);
    EXPECT_TRUE(charge.TrySet(70));
    ByteCharge part = charge.Split(30);
    EXPECT_EQ(account->bytes(), 70);
    ByteCharge moved = std::move(part);
    charge.Set(0);
    EXPECT_EQ(account->bytes(), 30);
    moved.Set(200);
    EXPECT_EQ(budget.used(), 200);
    moved = ByteCharge(account);
  }
  EXPECT_EQ(account->bytes(), 0);
  EXPECT_EQ(budget.used(), 0);
  ByteCharge none;
  EXPECT_TRUE(none.TrySet(int64_t{1} << 60));
}

}  // namespace
}  // namespace mnemon
