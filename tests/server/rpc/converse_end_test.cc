// SPDX-License-Identifier: MIT
// What ends a stream of Generation.Converse, and what it leaves behind.
#include <future>
#include <thread>

#include "base/attended_clock.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/patience.h"
#include "tests/server/rpc/talk.h"

namespace mnemon::converse {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Converse, AHalfCloseLetsTheTurnFinish) {
  Rig rig;
  Talk talk(rig, OpenOf("", kMany));
  rig.decoder.Allow(0);
  talk.Send(TurnOf({1}, 100));
  talk.Close();
  rig.decoder.AwaitHeld();
  rig.decoder.AllowAll();
  EXPECT_EQ(talk.Finish().tokens.size(), 100u);
  EXPECT_TRUE(talk.End().ok());

  Talk exact(rig, OpenOf("", 5));
  exact.Send(TurnOf({1}, 5));
  exact.Close();
  EXPECT_TRUE(exact.End().ok());
  EXPECT_EQ(exact.tokens_at_end, 5);
  EXPECT_TRUE(exact.finished_at_end);

  // Nobody can grant what is missing.
  Talk short_of(rig, OpenOf("", 4));
  short_of.Send(TurnOf({1}, 5));
  short_of.Close();
  ExpectError(short_of.End(), absl::StatusCode::kFailedPrecondition, "NO_CREDITS",
              "credits.token_count");
  EXPECT_EQ(short_of.tokens_at_end, 4);
}

TEST(Converse, AFailedTurnEndsTheStreamAfterItsTokens) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", kMany));
  talk.Send(TurnOf({1}, 3));
  talk.Finish();
  talk.Send(TurnOf({ToyDecoder::kFailing}, 3));
  EXPECT_EQ(talk.End().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(rig.client->GetSession("s")->position, 4);

  Talk deleted(rig, OpenOf("s", 3));
  deleted.Send(TurnOf({1}, 900));
  deleted.Read(3);
  ASSERT_TRUE(rig.client->DeleteSession("s").ok());
  deleted.Send(CreditsOf(kMany));
  EXPECT_EQ(GetErrorDetail(deleted.End())->reason, "SESSION_DELETED");
}

TEST(Converse, ALostStreamLeavesTheSessionAtTheLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Tokens history = {1, 2};
  {
    Talk talk(rig, OpenOf("s", 9));
    talk.Send(TurnOf(history, 900));
    Append(history, talk.Read(9));
  }
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  EXPECT_EQ(rig.client->GetSession("s")->position, 11);
  Talk talk(rig, OpenOf("s", kMany));
  EXPECT_EQ(talk.opened.token_count(), 11);
  talk.Send(TurnOf({3}, 20));
  Append(history, {3});
  EXPECT_EQ(talk.Finish().tokens, Greedy(history, 20));
}

class IdleConversation : public ::testing::Test {
 protected:
  static constexpr milliseconds kIdle{300};

  // Lets time pass until the stream has ended. `ends`: the server ends idle callers.
  absl::Status EndOf(Talk& talk, bool ends = true) {
    std::future<absl::Status> end =
        std::async(std::launch::async, [&] { return talk.End(); });
    while (end.wait_for(milliseconds(5)) == std::future_status::timeout) {
      clock_.Advance(milliseconds(10));
      attended_.Attend();
      if (ends) rig_.service->EndIdleCalls();
    }
    return end.get();
  }
  // Time in which callers do nothing, and the server looks for idle ones.
  void PassIdle(milliseconds time) {
    constexpr milliseconds kStep{10};
    for (; time > milliseconds(0); time -= kStep) {
      clock_.Advance(kStep);
      rig_.service->EndIdleCalls();
    }
  }

  FakeClock clock_;
  AttendedClock attended_{clock_, milliseconds(250)};
  Rig rig_{{.engine = {.idle_timeout = kIdle, .idle_clock = &attended_},
            .service = {.attended = &attended_}}};
};

TEST_F(IdleConversation, EndsBeforeItIsOpenAndBetweenTurns) {
  const auto begin = clock_.Now();
  Talk unopened(rig_);
  ExpectError(EndOf(unopened), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  Talk opened(rig_, OpenOf("", kMany));
  ExpectError(EndOf(opened), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  Talk between(rig_, OpenOf("", kMany));
  between.Send(TurnOf({1}, 5));
  between.Finish();
  ExpectError(EndOf(between), absl::StatusCode::kAborted, "CALLER_IDLE", "");
  EXPECT_GE(clock_.Now() - begin, 3 * kIdle);
  EXPECT_EQ(rig_.engine->Stats().sessions, 0);
}

TEST_F(IdleConversation, EndsATurnWithoutCredits) {
  ASSERT_TRUE(rig_.client->CreateSession("s", "").ok());
  int64_t position = 0;
  for (const int32_t max_tokens : {10, 900}) {
    Talk talk(rig_, OpenOf("s", 3));
    talk.Send(TurnOf({1}, max_tokens));
    talk.Read(3);
    ExpectError(EndOf(talk), absl::StatusCode::kAborted, "CALLER_IDLE", "");
    EXPECT_TRUE(rig_.engine->WaitIdle(kPatience));
    position += 4;
    EXPECT_EQ(rig_.client->GetSession("s")->position, position);
  }
  // The engine ends it too, where nobody looks for idle callers.
  Talk talk(rig_, OpenOf("s", 3));
  talk.Send(TurnOf({1}, 900));
  ExpectError(EndOf(talk, /*ends=*/false), absl::StatusCode::kAborted, "CALLER_IDLE",
              "");
}

// As if the process had been stopped, or got no core.
TEST_F(IdleConversation, DoesNotEndForTimeInWhichTheServerDidNotRun) {
  Talk talk(rig_, OpenOf("", 4));
  for (int turn = 0; turn < 3; ++turn) {
    clock_.Advance(std::chrono::hours(1));
    rig_.service->EndIdleCalls();
    talk.Send(TurnOf({1}, 10));
    talk.Read(4);
    clock_.Advance(std::chrono::hours(1));
    rig_.service->EndIdleCalls();
    talk.Send(CreditsOf(10));
    EXPECT_EQ(talk.Finish().tokens.size(), 6u);
  }
  ExpectError(EndOf(talk), absl::StatusCode::kAborted, "CALLER_IDLE", "");
}

TEST_F(IdleConversation, DoesNotEndWhileItWaitsForTheModelOrCreditsCome) {
  Talk talk(rig_, OpenOf("", 100));
  rig_.decoder.Allow(0);
  talk.Send(TurnOf({1}, 10));
  rig_.decoder.AwaitHeld();
  PassIdle(3 * kIdle);
  rig_.decoder.AllowAll();
  EXPECT_EQ(talk.Finish().tokens.size(), 10u);
  talk.Send(TurnOf({1}, 100));
  talk.Read(90);
  for (int i = 0; i < 9; ++i) {
    PassIdle(kIdle / 2);
    talk.Send(CreditsOf(1));
    talk.Read(1);
  }
  talk.Send(CreditsOf(1));
  EXPECT_EQ(talk.Finish().tokens.size(), 1u);
}

TEST(ConverseDrain, EndsAtOnceBetweenTurnsAndAfterTheFinishOfOne) {
  Rig rig;
  Talk idle(rig, OpenOf("", kMany));
  Talk busy(rig, OpenOf("", kMany));
  rig.decoder.Allow(0);
  busy.Send(TurnOf({1}, 100));
  rig.decoder.AwaitHeld();
  std::future<void> closed =
      std::async(std::launch::async, [&] { rig.server->Shutdown(2 * kPatience); });
  ExpectError(idle.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(closed.wait_for(seconds(0)), std::future_status::timeout);
  rig.decoder.AllowAll();
  EXPECT_EQ(busy.Finish().tokens.size(), 100u);
  ExpectError(busy.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(closed.wait_for(kPatience), std::future_status::ready);
}

TEST(ConverseDrain, ATurnEndsWithTheGraceAtItsLastDeliveredToken) {
  Rig rig;
  ASSERT_TRUE(rig.client->CreateSession("s", "").ok());
  Talk talk(rig, OpenOf("s", 5));
  talk.Send(TurnOf({1}, 900));
  talk.Read(5);
  rig.server->Shutdown(milliseconds(0));
  ExpectError(talk.End(), absl::StatusCode::kUnavailable, "DRAINING", "");
  EXPECT_EQ(talk.tokens_at_end, 0);
  EXPECT_TRUE(rig.engine->WaitIdle(kPatience));
  EXPECT_EQ(rig.engine->GetSession("s")->position, 6);
}

}  // namespace
}  // namespace mnemon::converse
