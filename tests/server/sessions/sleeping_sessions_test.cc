// SPDX-License-Identifier: MIT
#include "server/sessions/sleeping_sessions.h"

#include <map>
#include <random>
#include <string>

#include "base/strings.h"
#include "gtest/gtest.h"
#include "server/requests/engine_memory.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;
using Time = SleepingSessions::Time;

struct Kept {
  std::string request_id;
  SleepingFacts facts;
};

Kept RandomKept(std::mt19937_64& random) {
  // Numbers of all lengths.
  const auto number = [&] { return random() >> random() % 64; };
  Kept kept;
  kept.facts = {
      .model = static_cast<uint32_t>(number()),
      .nonce = random(),
      .updates = number(),
      .taken_back = number(),
      .version = number(),
      .sleep = number(),
      .last_use_time = system_clock::time_point(
          system_clock::duration(static_cast<int64_t>(random()))),
      .expiry = random() % 2 == 0 ? Time::max() : Time(seconds(1 + random() % 1000))};
  return kept;
}

void ExpectSame(const SleepingSession& session, const std::string& id,
                const Kept& kept) {
  EXPECT_EQ(session.id, id);
  EXPECT_EQ(session.request_id, kept.request_id);
  EXPECT_EQ(session.facts.model, kept.facts.model);
  EXPECT_EQ(session.facts.nonce, kept.facts.nonce);
  EXPECT_EQ(session.facts.updates, kept.facts.updates);
  EXPECT_EQ(session.facts.taken_back, kept.facts.taken_back);
  EXPECT_EQ(session.facts.version, kept.facts.version);
  EXPECT_EQ(session.facts.sleep, kept.facts.sleep);
  EXPECT_EQ(session.facts.last_use_time, kept.facts.last_use_time);
  EXPECT_EQ(session.facts.expiry, kept.facts.expiry);
}

// They are what a map is, whatever is added, taken and changed.
TEST(SleepingSessions, AreFoundUntilTheyAreTaken) {
  const auto memory =
      std::make_shared<EngineMemory>(int64_t{1} << 30, std::vector<int64_t>{100});
  SleepingSessions sleeping(ChargeOf(memory, &EngineMemory::sessions));
  std::mt19937_64 random(5);
  std::map<std::string, Kept> expected;
  for (int i = 0; i < 20000; ++i) {
    // Ids of up to 300 bytes.
    std::string id = StrCat(random() % 700);
    if (random() % 8 == 0) id += std::string(id.size() * 75, 'x');
    const auto found = expected.find(id);
    if (found == expected.end()) {
      Kept kept = RandomKept(random);
      if (random() % 2 == 0) kept.request_id = StrCat("request of ", id);
      sleeping.Add(SleepingSessions::Block(
          {.id = id, .request_id = kept.request_id, .facts = kept.facts}));
      expected.emplace(id, kept);
    } else {
      const auto taken = sleeping.Take(id);
      ASSERT_TRUE(taken);
      ExpectSame(taken->Read(), id, found->second);
      expected.erase(found);
      EXPECT_FALSE(sleeping.Find(id));
      EXPECT_FALSE(sleeping.Take(id));
      EXPECT_FALSE(sleeping.FindRequest(StrCat("request of ", id)));
    }
  }
  ASSERT_EQ(sleeping.size(), static_cast<int64_t>(expected.size()));
  auto next = sleeping.blocks().begin();
  for (const auto& [id, kept] : expected) {
    ExpectSame((next++)->Read(), id, kept);
    ExpectSame(*sleeping.Find(id), id, kept);
    if (!kept.request_id.empty()) {
      EXPECT_EQ(sleeping.FindRequest(kept.request_id), id);
    }
  }
  EXPECT_EQ(sleeping.bytes(), memory->sessions.bytes());
  while (!expected.empty()) {
    ASSERT_TRUE(sleeping.Take(expected.begin()->first));
    expected.erase(expected.begin());
  }
  EXPECT_EQ(sleeping.bytes(), 0);
  EXPECT_EQ(memory->sessions.bytes(), 0);
}

// A session with an id of usual length takes no more than this: as many as memory has
// names for can sleep.
TEST(SleepingSessions, TakeLittle) {
  const SleepingFacts facts{
      .nonce = ~uint64_t{0}, .updates = 100, .version = 10000, .sleep = 100'000'000};
  EXPECT_LE(SleepingSessions::Block({.id = "session-12345", .facts = facts}).bytes(),
            80);
  EXPECT_LE(
      SleepingSessions::Block({.id = std::string(36, 'x'), .facts = facts}).bytes(),
      96);
}

// Every session whose time has come is found once the looks are through, those that
// fell asleep meanwhile included, and looks are at least a second apart; one that was
// not taken is found again.
TEST(SleepingSessions, AreFoundWhenTheyExpire) {
  SleepingSessions sleeping{ByteCharge()};
  std::mt19937_64 random(9);
  std::map<std::string, Time> expected;
  std::map<std::string, int> tries;
  int made = 0;
  const auto add = [&](Time now) {
    const std::string id = StrCat(random() % 1000, "-", made++);
    const Time expiry = now + seconds(random() % 40);
    expected.emplace(id, expiry);
    sleeping.Add(SleepingSessions::Block(
        {.id = id, .request_id = {}, .facts = {.expiry = expiry}}));
  };
  Time now{seconds(1)};
  for (int i = 0; i < 500; ++i) add(now);
  for (int second = 0; second < 100; ++second) {
    int looks = 0;
    while (sleeping.due() <= now) {
      ASSERT_LT(++looks, 1000);
      std::vector<std::string> expired;
      expired.reserve(3);
      sleeping.LookForExpired(now, expired);
      for (const std::string& id : expired) {
        ASSERT_TRUE(expected.contains(id));
        EXPECT_LE(expected.at(id), now);
        // One in four cannot be read now.
        ++tries[id];
        if (random() % 4 == 0) continue;
        expected.erase(id);
        sleeping.Take(id);
      }
      if (second < 40 && looks % 5 == 0) add(now);
    }
    // What fell asleep after a look waits for the next one, a second later.
    for (const auto& [id, expiry] : expected) {
      EXPECT_GT(expiry, now - seconds(2 + tries[id])) << id;
    }
    now += seconds(1);
  }
  EXPECT_TRUE(expected.empty());
}

}  // namespace
}  // namespace mnemon
