// SPDX-License-Identifier: MIT
#include "server/transport/address_pace.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/transport/sockets.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMost = AddressPace::kMostOfAddress + 40;
const AddressPace::Time kStart{std::chrono::hours(1)};

// Connections of `host` that are taken at `begin`.
int TakenAtOnce(AddressPace& pace, const std::string& host, AddressPace::Time begin) {
  int taken = 0;
  while (pace.Take(host, begin)) ++taken;
  return taken;
}

// And within a second from then on.
int TakenWithinASecond(AddressPace& pace, const std::string& host,
                       AddressPace::Time begin) {
  int taken = 0;
  for (auto now = begin; now < begin + seconds(1); now += milliseconds(1)) {
    taken += TakenAtOnce(pace, host, now);
  }
  return taken;
}

// Open until its client's end is destroyed, or closed.
struct Client {
  SocketPair pair;
  AddressPace::Waiting Waits(const std::string& peer, AddressPace::Time since) {
    return {std::move(pair.server), peer, since};
  }
};

void SlowDown(AddressPace& pace, const std::string& host, AddressPace::Time now) {
  pace.Take(host, now);
  for (int i = 0; i < 6; ++i) pace.Count(host, ConnectionOutcome::kAbusive, now);
  TakenAtOnce(pace, host, now);
}

TEST(AddressPace, ABurstThenARate) {
  AddressPace pace(kMost);
  EXPECT_EQ(TakenAtOnce(pace, "a", kStart), AddressPace::kBurst);
  EXPECT_NEAR(TakenWithinASecond(pace, "a", kStart), AddressPace::kPerSecond, 1);
  // Another address has its own.
  EXPECT_TRUE(pace.Take("b", kStart));
}

TEST(AddressPace, EachStrikeDividesItByFour) {
  AddressPace pace(kMost);
  TakenAtOnce(pace, "a", kStart);
  pace.Count("a", ConnectionOutcome::kAbusive, kStart);
  EXPECT_EQ(pace.Allowance("a", kStart), 0.25);
  EXPECT_NEAR(TakenWithinASecond(pace, "a", kStart), AddressPace::kPerSecond / 4,
              AddressPace::kPerSecond / 20);
  SlowDown(pace, "a", kStart + seconds(1));
  EXPECT_LE(TakenWithinASecond(pace, "a", kStart + seconds(1)), 1);
  EXPECT_EQ(pace.Allowance("a", kStart + seconds(1)), 1.0 / 16);
  EXPECT_EQ(pace.Allowance("b", kStart), 1);
}

TEST(AddressPace, StrikesAreForgotten) {
  AddressPace pace(kMost);
  SlowDown(pace, "a", kStart);
  const auto later = kStart + 12 * AddressPace::kHalfLife;
  EXPECT_NEAR(pace.Allowance("a", later), 1, 0.01);
  EXPECT_GE(TakenAtOnce(pace, "a", later), 0.99 * AddressPace::kBurst);
}

TEST(AddressPace, UselessConnectionsCountATenth) {
  AddressPace pace(kMost);
  ASSERT_TRUE(pace.Take("a", kStart));
  for (int i = 0; i < 10; ++i) pace.Count("a", ConnectionOutcome::kUseless, kStart);
  ASSERT_TRUE(pace.Take("b", kStart));
  for (int i = 0; i < 100; ++i) pace.Count("b", ConnectionOutcome::kUseless, kStart);
  EXPECT_NEAR(TakenAtOnce(pace, "a", kStart), AddressPace::kBurst / 4, 1);
  EXPECT_NEAR(TakenAtOnce(pace, "b", kStart), AddressPace::kBurst / 64, 1);
  // They are slowed down, and allowed as much as others.
  EXPECT_EQ(pace.Allowance("b", kStart), 1);
}

TEST(AddressPace, UsefulConnectionsMakeGoodForOthers) {
  AddressPace pace(kMost);
  ASSERT_TRUE(pace.Take("a", kStart));
  pace.Count("a", ConnectionOutcome::kAbusive, kStart);
  EXPECT_EQ(pace.Allowance("a", kStart), 0.25);
  for (int i = 0; i < 10; ++i) pace.Count("a", ConnectionOutcome::kUseful, kStart);
  EXPECT_NEAR(pace.Allowance("a", kStart), 1, 1e-9);
  // A client that also has calls that end is not slowed down.
  for (int i = 0; i < 100; ++i) {
    pace.Count("a", ConnectionOutcome::kUseful, kStart);
    pace.Count("a", ConnectionOutcome::kUseless, kStart);
  }
  EXPECT_GT(TakenAtOnce(pace, "a", kStart + seconds(2)), 0.8 * AddressPace::kBurst);
}

TEST(AddressPace, TheNewestThatWaitsGoesFirst) {
  AddressPace pace(kMost);
  SlowDown(pace, "a", kStart);
  EXPECT_EQ(pace.NextDue(), std::nullopt);
  Client first, second;
  EXPECT_EQ(pace.Add("a", first.Waits("a:1", kStart)), 0);
  EXPECT_EQ(pace.Add("a", second.Waits("a:2", kStart)), 0);
  EXPECT_FALSE(pace.Take("a", kStart + milliseconds(500)));
  EXPECT_FALSE(pace.TakeDue(kStart + milliseconds(500)).has_value());
  ASSERT_TRUE(pace.NextDue().has_value());
  const auto due = kStart + seconds(1);
  // Whoever comes now does not overtake those that wait.
  EXPECT_FALSE(pace.Take("a", due));
  const auto taken = pace.TakeDue(due);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->peer, "a:2");
  EXPECT_FALSE(pace.TakeDue(due).has_value());
}

TEST(AddressPace, MoreThanMayWaitTakeThePlaceOfTheOldest) {
  AddressPace pace(kMost);
  SlowDown(pace, "a", kStart);
  std::vector<Client> clients(AddressPace::kMostOfAddress + 1);
  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(pace.Add("a", clients[i].Waits(StrCat("a:", i), kStart)),
              i == AddressPace::kMostOfAddress ? 1 : 0);
  }
  EXPECT_TRUE(IsClosed(clients[0].pair.client));
  // Total limit: the address with most connections loses one.
  std::vector<Client> others(kMost - AddressPace::kMostOfAddress + 1);
  int closed = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    closed += pace.Add("b", others[i].Waits(StrCat("b:", i), kStart));
  }
  EXPECT_EQ(closed, 1);
  EXPECT_TRUE(IsClosed(clients[1].pair.client));
}

TEST(AddressPace, NobodyWaitsForLong) {
  AddressPace pace(kMost);
  SlowDown(pace, "a", kStart);
  Client patient, gone;
  pace.Add("a", patient.Waits("a:1", kStart));
  pace.Add("a", gone.Waits("a:2", kStart));
  gone.pair.client.Close();
  // The one whose peer has gone does not keep the other from its turn.
  const auto taken = pace.TakeDue(kStart + seconds(1));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->peer, "a:1");
  Client late;
  for (int i = 0; i < 6; ++i)
    pace.Count("a", ConnectionOutcome::kAbusive, kStart + seconds(1));
  pace.Add("a", late.Waits("a:3", kStart + seconds(1)));
  pace.TakeDue(kStart + seconds(1) + AddressPace::kLongestWait);
  EXPECT_EQ(pace.NextDue(), std::nullopt);
}

}  // namespace
}  // namespace mnemon
