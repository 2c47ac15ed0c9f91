// SPDX-License-Identifier: MIT
// A store that hangs, and goes on: what was refused meanwhile takes no effect, and what
// was acknowledged stays.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "tests/server/engine/waiting_scene.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using Facts = absl::StatusOr<SessionFacts>;

// The answer of a method whose commit hangs for longer than the bound.
template <class Outcome, class Method>
Outcome TellTooLate(Scene& scene, const Method& method) {
  auto told = std::make_shared<std::promise<Outcome>>();
  auto answer = told->get_future();
  EXPECT_TRUE(
      method([told](Outcome outcome) { told->set_value(std::move(outcome)); }).ok());
  EXPECT_TRUE(scene.store.AwaitHeld(kPatience));
  // The commit may begin before the method waits for it.
  EXPECT_TRUE(scene.asked.Await([&] {
    const auto kinds = scene.engine().waiters().kinds;
    return kinds[static_cast<size_t>(WaiterKind::kFlush)].waiting > 0 ||
           kinds[static_cast<size_t>(WaiterKind::kDelete)].waiting > 0;
  }));
  scene.server->clock.Advance(Waiters::kBound + seconds(1));
  if (answer.wait_for(kPatience) == std::future_status::ready) return answer.get();
  ADD_FAILURE() << "no answer";
  return absl::DeadlineExceededError("no answer");
}

TEST(Overdue, ADeletionThatIsToldTooLateTakesTheSessionAllTheSame) {
  Scene scene;
  const auto told = TellTooLate<absl::Status>(
      scene, [&](auto done) { return scene.engine().DeleteSession("s", "", done); });
  EXPECT_EQ(ReasonOf(told), "NO_ANSWER") << told;
  EXPECT_TRUE(scene.engine().GetSession("s").ok());
  scene.store.Open();
  EXPECT_TRUE(scene.asked.Await(
      [&] { return absl::IsNotFound(scene.engine().GetSession("s").status()); }));
  EXPECT_TRUE(scene.engine().CreateSession({.id = "s"}).ok());
}

// What the caller sees of a session but for the etag, and when it was used.
std::string Seen(Engine& engine, const std::string& id) {
  const Facts facts = engine.GetSession(id);
  if (!facts.ok()) return ReasonOf(facts.status());
  std::string text =
      StrCat(facts->position, " ", static_cast<int>(facts->durability),
             facts->paused ? " paused" : "", facts->expire_time ? " expires" : "");
  for (const auto& checkpoint : facts->checkpoints) text += " " + checkpoint.id;
  return text;
}

absl::Status RewindTo(Engine& engine, const std::string& checkpoint) {
  return AwaitAnswer<SessionFacts>([&](auto done) {
           return engine.RewindSession({.session = "s", .target = checkpoint}, done);
         })
      .status();
}

SessionSettings WithDurability(Durability durability) {
  SessionSettings settings;
  settings.durability = durability;
  return settings;
}

// An update that is refused because its commit hangs takes no effect later, whatever
// becomes of the commit.
TEST(Overdue, AnUpdateThatIsToldTooLateChangesNothing) {
  SessionSettings paused, expiring;
  paused.paused = true;
  expiring.ttl = std::chrono::hours(5);
  for (const SessionSettings& settings :
       {paused, expiring, WithDurability(Durability::kNone),
        WithDurability(Durability::kAlways)}) {
    for (const bool turn : {false, true}) {
      Scene scene;
      const std::string before = Seen(scene.engine(), "s");
      const Facts told = TellTooLate<Facts>(scene, [&](auto done) {
        return scene.engine().UpdateSession({.session = "s", .settings = settings},
                                            done);
      });
      EXPECT_EQ(ReasonOf(told.status()), "NO_ANSWER") << told.status();
      // The caller may be told before it is taken back.
      EXPECT_TRUE(
          scene.asked.Await([&] { return Seen(scene.engine(), "s") == before; }));
      scene.store.Open();
      std::vector<int32_t> history = Tokens(9, 1);
      const auto run = [&](const std::vector<int32_t>& prompt) {
        const Outcome outcome = scene.server->Run(Ask(prompt, 4, "s"));
        EXPECT_TRUE(outcome.status.ok()) << outcome.status;
        return outcome.tokens;
      };
      if (turn) run(Tokens(2, 5));
      const std::string then = Seen(scene.engine(), "s");
      scene.Restart();
      EXPECT_EQ(Seen(scene.engine(), "s"), then);
      history = Joined(history, scene.server->Run(Ask(history, 4)).tokens);
      const absl::Status rewound = RewindTo(scene.engine(), "c");
      EXPECT_TRUE(rewound.ok()) << rewound;
      EXPECT_EQ(run(Tokens(3, 6)),
                scene.server->Run(Ask(Joined(history, Tokens(3, 6)), 4)).tokens);
      if (HasFailure())
        FAIL() << static_cast<int>(settings.durability.value_or(Durability::kTurn))
               << (turn ? " with a turn" : "");
    }
  }
}

TEST(Overdue, AnUpdateThatIsToldTooLateStoresNothing) {
  Scene scene;
  ASSERT_TRUE(
      scene.engine()
          .CreateSession({.id = "n", .settings = WithDurability(Durability::kNone)})
          .ok());
  ASSERT_TRUE(scene.server->Run(Ask(Tokens(9, 1), 4, "n")).status.ok());
  const Facts told = TellTooLate<Facts>(scene, [&](auto done) {
    return scene.engine().UpdateSession(
        {.session = "n", .settings = WithDurability(Durability::kTurn)}, done);
  });
  EXPECT_EQ(ReasonOf(told.status()), "NO_ANSWER") << told.status();
  EXPECT_TRUE(scene.asked.Await(
      [&] { return scene.engine().GetSession("n")->durability == Durability::kNone; }));
  scene.store.Open();
  EXPECT_TRUE(scene.server->Run(Ask(Tokens(2, 1), 4, "n")).status.ok());
  scene.Restart();
  EXPECT_EQ(Seen(scene.engine(), "n"), "SESSION_NOT_FOUND");
}

// A session that leaves the store, and comes back to it, keeps its checkpoints.
TEST(Overdue, CheckpointsFollowTheDurabilityOfTheirSession) {
  Scene scene;
  for (const Durability durability : {Durability::kNone, Durability::kTurn}) {
    scene.Restart();
    for (const Durability next : {Durability::kNone, durability}) {
      const Facts updated = scene.engine().UpdateSession(
          {.session = "s", .settings = WithDurability(next)});
      ASSERT_TRUE(updated.ok()) << updated.status();
    }
    if (durability == Durability::kTurn) scene.Restart();
    const absl::Status rewound = RewindTo(scene.engine(), "c");
    EXPECT_TRUE(rewound.ok()) << rewound;
    const Facts updated = scene.engine().UpdateSession(
        {.session = "s", .settings = WithDurability(Durability::kTurn)});
    ASSERT_TRUE(updated.ok()) << updated.status();
  }
}

constexpr char kId[] = "00000000-0000-4000-8000-000000000001";

void Checkpoint(Scene& scene) {
  scene.Call<absl::StatusOr<CheckpointFacts>>("checkpoint", [&](auto done) {
    return scene.engine().CheckpointSession(
        {.session = "s", .id = "d", .request_id = kId}, done);
  });
}

// Whatever becomes of a repetition, the checkpoint that was acknowledged stays.
TEST(Overdue, ARepetitionTakesNoCheckpointBack) {
  Scene scene;
  scene.store.Open();
  Checkpoint(scene);
  ASSERT_TRUE(scene.asked.AwaitAll());
  const std::string made = Seen(scene.engine(), "s");
  // A commit that fails, of another change.
  scene.store.Hold();
  scene.Call<Facts>("update", [&](auto done) {
    return scene.engine().UpdateSession({.session = "s"}, done);
  });
  ASSERT_TRUE(scene.store.AwaitHeld(kPatience));
  Checkpoint(scene);
  scene.store.Fail(true);
  scene.store.Open();
  EXPECT_TRUE(scene.asked.AwaitAll()) << scene.asked.Unanswered();
  EXPECT_EQ(Seen(scene.engine(), "s"), made);
  scene.store.Fail(false);
  EXPECT_TRUE(scene.asked.Await([&] { return RewindTo(scene.engine(), "d").ok(); }));
  scene.Restart();
  EXPECT_EQ(Seen(scene.engine(), "s"), made);
  EXPECT_TRUE(RewindTo(scene.engine(), "d").ok());
}

// All that ask for the same one get one answer, and there is one of it.
TEST(Overdue, RepetitionsOfACheckpointShareItsAnswer) {
  Scene scene;
  const std::string before = Seen(scene.engine(), "s");
  const auto ask = [&](auto done) {
    Checkpoint(scene);
    Checkpoint(scene);
    return scene.engine().CheckpointSession(
        {.session = "s", .id = "d", .request_id = kId}, done);
  };
  using Answer = absl::StatusOr<CheckpointFacts>;
  const Answer told = TellTooLate<Answer>(scene, ask);
  EXPECT_EQ(ReasonOf(told.status()), "NO_ANSWER") << told.status();
  EXPECT_TRUE(scene.asked.AwaitAll()) << scene.asked.Unanswered();
  EXPECT_TRUE(scene.asked.Await([&] { return Seen(scene.engine(), "s") == before; }));
  scene.store.Open();
  const Answer made = AwaitAnswer<CheckpointFacts>(ask);
  EXPECT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(scene.asked.AwaitAll()) << scene.asked.Unanswered();
  EXPECT_EQ(Seen(scene.engine(), "s"), before + " d");
  scene.Restart();
  EXPECT_EQ(Seen(scene.engine(), "s"), before + " d");
  EXPECT_TRUE(RewindTo(scene.engine(), "d").ok());
}

TEST(Overdue, ADeletionAnswersAResumeThatWaitsForItsTurn) {
  Scene scene;
  scene.store.Open();
  const GenerateRequest resume = {
      .session = "s", .request_id = kId, .resume_after = -1};
  {
    GenerateRequest request = Ask(Tokens(2, 3), 60, "s");
    request.request_id = kId;
    scene.server->decoder.Allow(10);
    Reader lost(scene.engine(), request);
    lost.Next();
    lost.stream().Cancel();
    while (scene.engine().Stats().running > 0) {
      scene.server->decoder.Allow(1);
      std::this_thread::yield();
    }
    scene.server->decoder.AllowAll();
  }
  ASSERT_TRUE(
      scene.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
  scene.Restart();
  ToyDecoder& decoder = scene.server->decoder;
  decoder.Allow(0);
  Reader busy(scene.engine(), Ask({1}, 50));
  decoder.AwaitHeld();
  // Its state is to come from the store, and the runner to make room for that.
  Reader holds(scene.engine(), resume);
  Reader waits(scene.engine(), resume);
  decoder.Allow(1);
  EXPECT_EQ(ReasonOf(holds.Finish().status), "STREAM_RESUMED");
  ASSERT_TRUE(scene.engine().DeleteSession("s").ok());
  EXPECT_EQ(ReasonOf(waits.Finish().status), "SESSION_NOT_FOUND");
  decoder.AllowAll();
  EXPECT_TRUE(busy.Finish().status.ok());
}

// A deletion that was refused and is in the store all the same: nothing is damaged.
TEST(Overdue, AHistoryThatWasDeletedIsNotFound) {
  Scene scene;
  scene.Restart();
  scene.store.Fail(true, /*written=*/true);
  EXPECT_EQ(ReasonOf(scene.engine().DeleteSession("s")), "STORE_FULL");
  const auto read = AwaitAnswer<HistoryPart>(
      [&](auto done) { return scene.engine().ReadHistory({.session = "s"}, done); });
  EXPECT_EQ(ReasonOf(read.status()), "SESSION_NOT_FOUND") << read.status();
  scene.store.Fail(false);
}

}  // namespace
}  // namespace mnemon
