// SPDX-License-Identifier: MIT
// Credits and interrupts of Generation.Converse.
#include <future>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/server/rpc/talk.h"

namespace mnemon::converse {
namespace {

using ::testing::ElementsAreArray;

TEST(Converse, CreditsAreExactToTheToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 3));
  talk.Send(TurnOf({1, 2}, 900));
  Tokens tokens = talk.Read(3);
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    // So that more waits than is granted, and the session pauses.
    if (round % 8 == 0) {
      EXPECT_TRUE(Eventually([&] {
        const EngineStats now = rig.engine->Stats();
        return now.models[0].stalled == 1 &&
               now.tokens_generated == static_cast<int64_t>(tokens.size()) + 64;
      }));
    }
    const int64_t first = 1 + random() % 9, second = 1 + random() % 20;
    talk.Send(CreditsOf(first));
    talk.Send(CreditsOf(second));
    Append(tokens, talk.Read(first + second));
  }
  talk.Send(Interrupt());
  Tokens more;
  EXPECT_EQ(talk.AwaitInterrupted(&more), static_cast<int64_t>(2 + tokens.size()));
  EXPECT_THAT(more, ElementsAreArray(Tokens{}));
  EXPECT_EQ(tokens, Greedy({1, 2}, static_cast<int64_t>(tokens.size())));
}

TEST(Converse, AFinishNeedsNoCredits) {
  Rig rig;
  Talk talk(rig, OpenOf("", 10));
  talk.Send(TurnOf({1}, 10));
  EXPECT_EQ(talk.Finish().tokens.size(), 10u);
  talk.Send(TurnOf({1, 2, 3}, 0));
  EXPECT_EQ(talk.Finish().finish.token_count(), 14);
  // Those that are left go on to the next turn.
  talk.Send(CreditsOf(7));
  talk.Send(TurnOf({1}, 4));
  EXPECT_EQ(talk.Finish().tokens.size(), 4u);
  talk.Send(TurnOf({1}, 4));
  talk.Read(3);
  talk.Send(CreditsOf(1));
  EXPECT_EQ(talk.Finish().tokens.size(), 1u);
}

TEST(Converse, AnInterruptEndsTheTurnAtTheLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 0));
  talk.Send(Interrupt());
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  Tokens history;
  for (const int64_t delivered : {0, 1, 17, 60, 64, 70}) {
    for (const int32_t max_tokens : {100, 80}) {
      talk.Send(TurnOf({1, 2}, max_tokens));
      if (delivered > 0) talk.Send(CreditsOf(delivered));
      const Tokens got = talk.Read(delivered);
      // All is computed, or the session has paused.
      EXPECT_TRUE(Eventually([&] {
        const EngineStats now = rig.engine->Stats();
        return now.models[0].stalled == 1 || now.running == 0;
      }));
      talk.Send(Interrupt());
      talk.Send(Interrupt());
      if (delivered > 0) {
        Append(history, {1, 2});
        EXPECT_EQ(got, Greedy(history, delivered));
        Append(history, got);
      }
      ASSERT_EQ(talk.AwaitInterrupted(), static_cast<int64_t>(history.size()));
      ASSERT_EQ(talk.AwaitInterrupted(), static_cast<int64_t>(history.size()));
      EXPECT_EQ(rig.client->GetSession("s")->position,
                static_cast<int64_t>(history.size()));
    }
  }
  talk.Send(CreditsOf(20));
  talk.Send(TurnOf({9}, 20));
  Append(history, {9});
  EXPECT_EQ(talk.Finish().tokens, Greedy(history, 20));
}

TEST(Converse, AnInterruptEndsATurnThatWaitsOrComputes) {
  Rig rig({.engine = {.running = 1}});
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  ASSERT_TRUE(rig.client->CreateSession("other", "").ok());
  Talk talk(rig, OpenOf("s", 0));
  rig.decoder.Allow(0);
  talk.Send(TurnOf({1, 2, 3}, 10));
  rig.decoder.AwaitHeld();
  talk.Send(Interrupt());
  rig.decoder.AllowAll();
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  rig.decoder.Allow(0);
  std::future<Collected> first = std::async(std::launch::async, [&] {
    return Collect(*rig.NewClient(),
                   {.session = "other", .tokens = {1}, .stopping = {.max_tokens = 3}});
  });
  rig.decoder.AwaitHeld();
  talk.Send(TurnOf({1, 2, 3}, 10));
  EXPECT_TRUE(Eventually([&] { return rig.engine->Stats().queued == 1; }));
  talk.Send(Interrupt());
  EXPECT_EQ(talk.AwaitInterrupted(), 0);
  rig.decoder.AllowAll();
  EXPECT_TRUE(first.get().result.ok());
  talk.Send(CreditsOf(10));
  talk.Send(TurnOf({4}, 10));
  EXPECT_EQ(talk.Finish().tokens, Greedy({4}, 10));
}

// Whatever the client does and when, the history is what it was told.
TEST(Converse, AnyOrderOfTurnsCreditsAndInterrupts) {
  Rig rig;
  std::mt19937 random(11);
  for (int run = 0; run < 12; ++run) {
    const std::string id = StrCat("s", run);
    ASSERT_TRUE(rig.client->CreateSession(id, "").ok());
    Talk talk(rig, OpenOf(id, kMany));
    Tokens history;
    while (history.size() < 500) {
      const Tokens prompt(1 + random() % 5, static_cast<int32_t>(random() % 30));
      const auto most = static_cast<int32_t>(random() % 120);
      talk.Send(TurnOf(prompt, most));
      if (random() % 3 == 0) {
        Append(history, prompt);
        const Talk::Turn got = talk.Finish();
        ASSERT_EQ(got.tokens, Greedy(history, most));
        Append(history, got.tokens);
        continue;
      }
      // The moment is what is drawn.
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      talk.Send(Interrupt());
      Tokens got;
      const int64_t tokens = talk.AwaitInterrupted(&got);
      // It may have come after the finish, even of no token.
      if (tokens > static_cast<int64_t>(history.size())) {
        Append(history, prompt);
        ASSERT_EQ(got, Greedy(history, static_cast<int64_t>(got.size())));
        Append(history, got);
      }
      ASSERT_EQ(tokens, static_cast<int64_t>(history.size()));
    }
    talk.Close();
    ASSERT_TRUE(talk.End().ok());
    ASSERT_EQ(rig.client->GetSession(id)->position,
              static_cast<int64_t>(history.size()));
  }
}

}  // namespace
}  // namespace mnemon::converse
