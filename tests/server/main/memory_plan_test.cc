// SPDX-License-Identifier: MIT
#include "server/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/process/control_groups.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/requests/engine_memory.h"
#include "server/sessions/session.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(MemoryPlan, ByDefaultFourFifthsOfWhatTheProcessMayUse) {
  EXPECT_EQ(DefaultMemory(), UsableMemory() / 5 * 4);
}

TEST(MemoryPlan, MessagesGetAnEighthWithinBounds) {
  EXPECT_EQ(TransportBytes(100 * kMiB), 64 * kMiB);
  EXPECT_EQ(TransportBytes(512 * kMiB), 64 * kMiB);
  EXPECT_EQ(TransportBytes(2048 * kMiB), 256 * kMiB);
  EXPECT_EQ(TransportBytes(4096 * kMiB), 512 * kMiB);
  EXPECT_EQ(TransportBytes(int64_t{1} << 50), 512 * kMiB);
}

TEST(MemoryPlan, TheEngineGetsTheRest) {
  EXPECT_EQ(*EngineBytes(1024 * kMiB, 300 * kMiB, 10 * kMiB),
            (1024 - 300 - 128 - 64) * kMiB);
}

TEST(MemoryPlan, TooLittleNamesTheFlagAndWhatIsNeeded) {
  for (const int64_t weights : {kMiB, 300 * kMiB, 3000 * kMiB, 30'000 * kMiB}) {
    const absl::Status refused = EngineBytes(40 * kMiB, weights, 7 * kMiB).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(GetErrorDetail(refused)->field, "memory");
    const std::string text(refused.message());
    EXPECT_THAT(text, HasSubstr("--memory"));
    EXPECT_THAT(text, HasSubstr(StrCat(40 * kMiB)));
    EXPECT_THAT(text, HasSubstr(StrCat("the weights take ", weights)));
    // It works with what it asks for, and not with slightly less.
    const std::string key = "at least ";
    const int64_t least = std::stoll(text.substr(text.find(key) + key.size()));
    EXPECT_TRUE(EngineBytes(least + 8, weights, 7 * kMiB).ok());
    EXPECT_FALSE(EngineBytes(least - 8, weights, 7 * kMiB).ok());
  }
}

TEST(MemoryShares, SessionsLeaveCallsTheirs) {
  const MemoryShares large = MemoryShares::Of(800 * kMiB, 10 * kMiB);
  EXPECT_EQ(large.resting, 400 * kMiB);
  EXPECT_EQ(large.sessions, 300 * kMiB);
  EXPECT_LT(large.new_sessions, large.sessions);
  EXPECT_EQ(MemoryShares::Of(8 * kMiB, 6 * kMiB).resting, 2 * kMiB);
  for (const int64_t calls : {kMiB, 7 * kMiB + 5, 900 * kMiB + 1}) {
    const int64_t least = MemoryShares::LeastFor(calls);
    EXPECT_GE(least - MemoryShares::Of(least, calls).resting, calls);
  }
  const MemoryShares all = MemoryShares::Of(ByteBudget::kUnlimited, kMiB);
  EXPECT_EQ(all.resting, ByteBudget::kUnlimited);
  EXPECT_EQ(all.new_sessions, ByteBudget::kUnlimited);
}

TEST(SessionTiers, TellStatesOfConstantSizeOnce) {
  const StateSpec spec{
      .entries = {{.name = "w", .shape = {100}, .growth = Growth::kFixed}}};
  EngineOptions options{.running = 7, .state_bytes = 4000};
  const SessionTiers few = PlanTiers(spec, 300, 4096, options, kMiB, true);
  EXPECT_EQ(few.running, 7);
  ASSERT_EQ(few.at_rest.size(), 1u);
  EXPECT_EQ(few.at_rest[0].state_bytes, 400);
  EXPECT_EQ(few.at_rest[0].sessions, 10);
  options.state_bytes = 1000 * kMiB;
  const SessionTiers::AtRest host =
      PlanTiers(spec, 300, std::nullopt, options, kMiB, true).at_rest[0];
  // Sessions take half of it at most, with their histories.
  const int64_t most = std::min(kMiB / 2 / 4 * 3 / 8 * 7 / Session::kBytes,
                                kMiB / 2 / host.session_bytes);
  EXPECT_EQ(host.sessions, std::min(most, kMiB / (400 + host.session_bytes)));
  const SessionTiers::AtRest device =
      PlanTiers(spec, 300, std::nullopt, options, kMiB, false).at_rest[0];
  EXPECT_EQ(device.sessions, most);
  EXPECT_EQ(host.in_host, 0);
  options.state_bytes = 4000;
  const SessionTiers::AtRest some =
      PlanTiers(spec, 300, std::nullopt, options, kMiB, false).at_rest[0];
  EXPECT_EQ(some.sessions, 10);
  EXPECT_EQ(some.in_host, std::min(most - 10, (kMiB - 10 * host.session_bytes) /
                                                  (400 + host.session_bytes)));
  options.sessions = 3;
  EXPECT_EQ(PlanTiers(spec, 300, 4096, options, kMiB, true).at_rest[0].sessions, 3);
}

TEST(SessionTiers, TellGrowingStatesAtTwoLengths) {
  const StateSpec spec{
      .entries = {
          {.name = "k", .shape = {4}, .growth = Growth::kAppend, .capacity = 3000}}};
  const SessionTiers tiers = PlanTiers(spec, 300, 3000, {}, 1000 * kMiB, true);
  ASSERT_EQ(tiers.at_rest.size(), 2u);
  // 999 and 2999 rows, in blocks of 16.
  EXPECT_EQ(tiers.at_rest[0].tokens, 1000);
  EXPECT_EQ(tiers.at_rest[0].state_bytes, 63 * 16 * 4 * 4);
  EXPECT_EQ(tiers.at_rest[1].tokens, 3000);
  EXPECT_EQ(tiers.at_rest[1].state_bytes, 188 * 16 * 4 * 4);
  EXPECT_GT(tiers.at_rest[0].sessions, tiers.at_rest[1].sessions);
  EXPECT_EQ(PlanTiers(spec, 300, 200, {}, kMiB, true).at_rest.size(), 1u);
}

// Two snapshots, each of the state and the history.
TEST(MemoryPlan, WhatFitsOnTheDisk) {
  StateSpec spec{.entries = {{.name = "sums", .shape = {250}}}};
  const EngineOptions options{.sessions = 100};
  StoredTier tier = PlanStore(spec, std::nullopt, options, 100'000);
  EXPECT_EQ(tier.tokens, 1000);
  EXPECT_EQ(tier.session_bytes, 2 * (4 * 250 + 4 * 1000));
  EXPECT_EQ(tier.sessions, 10);
  // No more than the server takes.
  EXPECT_EQ(PlanStore(spec, std::nullopt, options, 1 << 30).sessions, 100);
  // The last token of a history of 20 is not computed.
  spec.entries.push_back(
      {.name = "rows", .shape = {10}, .growth = Growth::kAppend, .capacity = 20});
  tier = PlanStore(spec, 20, options, 100'000);
  EXPECT_EQ(tier.tokens, 20);
  EXPECT_EQ(tier.session_bytes, 2 * (4 * 250 + 4 * 10 * 19 + 4 * 20));
}

}  // namespace
}  // namespace mnemon
