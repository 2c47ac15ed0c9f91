// SPDX-License-Identifier: MIT
// Sessions in a store: what comes back after a stop, a kill and a power failure goes on
// as if nothing had happened.
#include <atomic>
#include <fstream>

#include "server/snapshots/snapshot.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/silent_observer.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

class EngineStore : public StoreFixture, public testing::WithParamInterface<ToyState> {
 protected:
  // Checks that the session's history is `history`, and that it goes on as a call
  // without a session.
  static void CheckGoesOn(StoredServer& stored, const std::string& session,
                          const std::vector<int32_t>& history) {
    ASSERT_EQ(HistoryOf(stored.engine(), session), history);
    const std::vector<int32_t> prompt = Tokens(3, 77);
    const Outcome outcome = stored.server->Run(Ask(prompt, 20, session));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const Outcome expected = stored.server->Run(Ask(Joined(history, prompt), 20));
    ASSERT_EQ(outcome.tokens, expected.tokens);
  }

  static std::vector<int32_t> Continue(StoredServer& stored, const std::string& session,
                                       std::vector<int32_t> history,
                                       const std::vector<int32_t>& prompt,
                                       int32_t count) {
    const Outcome outcome = stored.server->Run(Ask(prompt, count, session));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    return Joined(Joined(std::move(history), prompt), outcome.tokens);
  }
};

TEST_P(EngineStore, SessionsOutliveTheProcess) {
  std::vector<int32_t> a, b;
  {
    StoredServer stored(Path(), GetParam());
    SessionSettings settings;
    settings.ttl = std::chrono::hours(5);
    settings.sampling = SessionSampling{.values = {.top_k = 7}, .seed = 3};
    ASSERT_TRUE(stored.engine().CreateSession({.id = "a", .settings = settings}).ok());
    stored.CreateSession("b", Durability::kAlways);
    stored.CreateSession("c", Durability::kNone);
    a = Continue(stored, "a", {}, Tokens(45, 1), 30);
    a = Continue(stored, "a", a, Tokens(5, 2), 200);
    b = Continue(stored, "b", {}, Tokens(600, 3), 3);
    Continue(stored, "c", {}, Tokens(6, 3), 3);
    ASSERT_TRUE(
        stored.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
  }
  StoredServer stored(Path(), GetParam());
  EXPECT_EQ(stored.engine().recovery().sessions, 2);
  const auto facts = stored.engine().GetSession("a");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->position, static_cast<int64_t>(a.size()));
  EXPECT_EQ(facts->durability, Durability::kTurn);
  ASSERT_TRUE(facts->sampling);
  EXPECT_EQ(facts->sampling->values.top_k, 7);
  EXPECT_TRUE(facts->expire_time);
  EXPECT_EQ(stored.engine().GetSession("b")->durability, Durability::kAlways);
  EXPECT_EQ(ReasonOf(stored.engine().GetSession("c").status()), "SESSION_NOT_FOUND");
  // The state comes from the snapshot: nothing is computed again.
  const Outcome outcome = stored.server->Run(Ask(Tokens(3, 77), 20, "a"));
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.start->resumed_tokens, static_cast<int64_t>(a.size()) - 1);
  const Outcome expected = stored.server->Run(Ask(Joined(a, Tokens(3, 77)), 20));
  EXPECT_EQ(outcome.tokens, expected.tokens);
  CheckGoesOn(stored, "b", b);
}

// The states that came back from the store.
struct Restores final : SilentObserver {
  void OnRestored(SessionTier from, Seconds took) override {
    EXPECT_EQ(from, SessionTier::kDisk);
    EXPECT_GT(took.count(), 0);
    ++count;
  }

  std::atomic<int> count = 0;
};

TEST_P(EngineStore, TheTierOfASession) {
  const auto save = [](StoredServer& stored) {
    ASSERT_TRUE(
        stored.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
  };
  const auto tiers = [](StoredServer& stored, const std::string& filter) {
    std::vector<std::string> ids;
    const auto page = stored.engine().ListSessions({.filter = filter});
    EXPECT_TRUE(page.ok()) << page.status();
    for (const SessionFacts& facts : page->sessions) ids.push_back(facts.id);
    return ids;
  };
  const std::vector<std::string> a = {"a"}, both = {"a", "b"}, b = {"b"};
  {
    StoredServer stored(Path(), GetParam());
    EXPECT_TRUE(stored.engine().Stats().store->healthy);
    for (const auto& id : both) {
      stored.CreateSession(id, Durability::kTurn);
      EXPECT_EQ(stored.engine().GetSession(id)->tier, SessionTier::kHost);
      Continue(stored, id, {}, Tokens(20, 1), 40);
    }
    stored.server->AwaitIdle();
    save(stored);
    EXPECT_EQ(tiers(stored, "tier = HOST"), both);
    EXPECT_EQ(stored.engine().Stats().models[0].sessions_stored, 0);
    EXPECT_GE(stored.engine().Stats().store->snapshots, 2);
    EXPECT_GE(stored.engine().Stats().store->journal.tokens, 2 * 60);
  }
  const auto restores = std::make_shared<Restores>();
  StoredServer stored(Path(), GetParam(), {.observer = restores});
  const auto in_store = [&] {
    return stored.engine().Stats().models[0].sessions_stored;
  };
  EXPECT_EQ(tiers(stored, "tier = DISK"), both);
  EXPECT_EQ(in_store(), 2);
  // A snapshot of it has its state, which comes back for that.
  HistoryOf(stored.engine(), "a");
  EXPECT_EQ(tiers(stored, "tier = DISK"), b);
  EXPECT_EQ(in_store(), 1);
  EXPECT_EQ(restores->count, 1);
  ASSERT_TRUE(stored.server->Run(Ask(Tokens(3, 77), 20, "a")).status.ok());
  stored.server->AwaitIdle();
  EXPECT_EQ(tiers(stored, "tier = HOST"), a);
  EXPECT_EQ(tiers(stored, "tier = DISK"), b);
  EXPECT_EQ(restores->count, 1);
  EXPECT_EQ(in_store(), 1);
  ASSERT_TRUE(stored.engine().DeleteSession("b").ok());
  EXPECT_EQ(in_store(), 0);
}

// What is verified and exported is what the store has.
TEST_P(EngineStore, StoredStatesAreVerifiedAndExported) {
  const std::vector<int32_t> a = [&] {
    StoredServer stored(Path(), GetParam());
    stored.CreateSession("a", Durability::kTurn);
    const auto history = Continue(stored, "a", {}, Tokens(45, 1), 30);
    EXPECT_TRUE(
        stored.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
    return history;
  }();
  std::filesystem::copy(Path(), Path("copy"), std::filesystem::copy_options::recursive);
  for (const bool exported : {false, true}) {
    StoredServer stored(exported ? Path("copy") : Path(), GetParam());
    if (exported) {
      const auto snapshot = AwaitAnswer<ExportedSession>([&](auto done) {
        return stored.engine().ExportSession("a", std::move(done));
      });
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      EXPECT_EQ(ReadSnapshotHeader(snapshot->snapshot)->computed,
                static_cast<int64_t>(a.size()) - 1);
    } else {
      const auto verified = AwaitAnswer<VerifiedSession>([&](auto done) {
        return stored.engine().VerifySession({.session = "a", .replay = true},
                                             std::move(done));
      });
      ASSERT_TRUE(verified.ok()) << verified.status();
      EXPECT_TRUE(verified->stored_form_valid);
      EXPECT_EQ(verified->replay_equal, true);
      EXPECT_GT(verified->state_size_bytes, 0);
    }
    EXPECT_EQ(stored.engine().GetSession("a")->state, SessionState::kIdle);
    CheckGoesOn(stored, "a", a);
  }
}

TEST_P(EngineStore, AKilledProcessLeavesAllThatWasDelivered) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kTurn);
  const std::vector<int32_t> history = Continue(stored, "a", {}, Tokens(20, 1), 40);
  Reader reader(stored.engine(), Ask(Tokens(9, 2), 400, "a"));
  for (int kill = 0; kill < 3; ++kill) {
    while (reader.so_far().tokens.size() < 50u * (1 + kill)) reader.Next();
    const std::vector<int32_t> delivered = reader.so_far().tokens;
    const std::string copy = Path("copy" + std::to_string(kill));
    stored.CopyAfterKill(copy);
    StoredServer again(copy, GetParam());
    const std::vector<int32_t> kept = HistoryOf(again.engine(), "a");
    const std::vector<int32_t> least = Joined(Joined(history, Tokens(9, 2)), delivered);
    ASSERT_GE(kept.size(), least.size());
    EXPECT_TRUE(std::equal(least.begin(), least.end(), kept.begin()));
    CheckGoesOn(again, "a", kept);
  }
  ASSERT_TRUE(reader.Finish().status.ok());
}

TEST_P(EngineStore, APowerFailureTakesNoMoreThanTheLevelAllows) {
  for (const Durability durability : {Durability::kTurn, Durability::kAlways}) {
    const std::string name = durability == Durability::kTurn ? "turn" : "always";
    StoredServer stored(Path(name), GetParam());
    stored.CreateSession("a", durability);
    const std::vector<int32_t> history = Continue(stored, "a", {}, Tokens(20, 1), 40);
    Reader reader(stored.engine(), Ask(Tokens(9, 2), 400, "a"));
    while (reader.so_far().tokens.size() < 100) reader.Next();
    const std::vector<int32_t> delivered = reader.so_far().tokens;
    stored.CopyAfterPowerFailure(Path(name + "-copy"));
    ASSERT_TRUE(reader.Finish().status.ok());
    StoredServer again(Path(name + "-copy"), GetParam());
    const std::vector<int32_t> kept = HistoryOf(again.engine(), "a");
    std::vector<int32_t> least = history;
    if (durability == Durability::kAlways) {
      least = Joined(Joined(history, Tokens(9, 2)), delivered);
    }
    ASSERT_GE(kept.size(), least.size());
    EXPECT_TRUE(std::equal(least.begin(), least.end(), kept.begin()));
    CheckGoesOn(again, "a", kept);
  }
}

TEST_P(EngineStore, WhatWasAnsweredIsSynced) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kTurn);
  const std::vector<int32_t> a = Continue(stored, "a", {}, Tokens(20, 1), 40);
  ASSERT_TRUE(CheckpointSession(stored.engine(), {.session = "a", .id = "p"}).ok());
  const std::vector<int32_t> longer = Continue(stored, "a", a, Tokens(4, 2), 30);
  ASSERT_TRUE(ForkSession(stored.engine(), {.session = "a", .id = "b"}).ok());
  ASSERT_TRUE(RewindSession(stored.engine(), {.session = "a", .target = 50}).ok());
  UpdateSessionRequest update{.session = "b"};
  update.settings.paused = true;
  ASSERT_TRUE(stored.engine().UpdateSession(update).ok());
  stored.CreateSession("c", Durability::kTurn);
  ASSERT_TRUE(stored.engine().DeleteSession("c").ok());
  stored.CopyAfterPowerFailure(Path("copy"));

  StoredServer again(Path("copy"), GetParam());
  EXPECT_EQ(again.engine().recovery().sessions, 2);
  EXPECT_EQ(HistoryOf(again.engine(), "a"),
            std::vector<int32_t>(longer.begin(), longer.begin() + 50));
  EXPECT_TRUE(again.engine().GetSession("b")->paused);
  EXPECT_EQ(again.engine().GetSession("b")->parent, "a");
  EXPECT_EQ(HistoryOf(again.engine(), "b"), longer);
  EXPECT_EQ(ReasonOf(again.engine().GetSession("c").status()), "SESSION_NOT_FOUND");
  ASSERT_EQ(again.engine().GetSession("a")->checkpoints.size(), 1u);
  EXPECT_EQ(again.engine().GetSession("a")->checkpoints[0].position,
            static_cast<int64_t>(a.size()));
  const auto rewound =
      RewindSession(again.engine(), {.session = "a", .target = std::string("p")});
  ASSERT_TRUE(rewound.ok()) << rewound.status();
  const Outcome outcome = again.server->Run(Ask(Tokens(3, 77), 20, "a"));
  EXPECT_EQ(outcome.start->resumed_tokens, static_cast<int64_t>(a.size()) - 1);
  const Outcome expected = again.server->Run(Ask(Joined(a, Tokens(3, 77)), 20));
  EXPECT_EQ(outcome.tokens, expected.tokens);
}

// A snapshot is a state alone: without it the state is computed again.
TEST_P(EngineStore, DamagedSnapshotsCostNothing) {
  std::vector<int32_t> a;
  {
    StoredServer stored(Path(), GetParam());
    stored.CreateSession("a", Durability::kTurn);
    for (int turn = 0; turn < 4; ++turn) {
      a = Continue(stored, "a", a, Tokens(20, 10 + turn), 40);
      ASSERT_TRUE(
          stored.engine().SaveSessions(std::chrono::steady_clock::now() + kPatience));
    }
  }
  int damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path() + "/snapshots")) {
    if (++damaged % 2 == 0) {
      std::filesystem::remove(entry.path());
      continue;
    }
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x55');
  }
  EXPECT_EQ(damaged, 2);
  StoredServer stored(Path(), GetParam());
  CheckGoesOn(stored, "a", a);
}

TEST_P(EngineStore, AFullDiskRefusesWhatHasToLast) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kTurn);
  stored.CreateSession("n", Durability::kNone);
  std::vector<int32_t> a = Continue(stored, "a", {}, Tokens(20, 1), 40);
  stored.files->Fail(DiskFault::kFull);
  const Outcome failed = stored.server->Run(Ask(Tokens(3, 5), 20, "a"));
  EXPECT_EQ(ReasonOf(failed.status), "STORE_FULL") << failed.status;
  EXPECT_TRUE(failed.tokens.empty());
  const auto refused = stored.engine().CreateSession({.id = "b"});
  EXPECT_EQ(ReasonOf(refused.status()), "STORE_FULL") << refused.status();
  EXPECT_EQ(stored.engine().Stats().sessions, 2);
  EXPECT_FALSE(stored.engine().Stats().store->healthy);
  EXPECT_GE(stored.engine().Stats().store->journal.failures, 1);
  // Others go on.
  std::vector<int32_t> n = Continue(stored, "n", {}, Tokens(6, 3), 30);
  EXPECT_TRUE(stored.server->Run(Ask(Tokens(6, 3), 3)).status.ok());
  stored.files->Fail(DiskFault::kNone);
  EXPECT_TRUE(
      Eventually([&] { return stored.engine().CreateSession({.id = "c"}).ok(); }));
  EXPECT_TRUE(stored.engine().Stats().store->healthy);
  a = Continue(stored, "a", a, Tokens(4, 8), 30);
  stored.CopyAfterPowerFailure(Path("copy"));
  StoredServer again(Path("copy"), GetParam());
  CheckGoesOn(again, "a", a);
}

// What is refused because it cannot be stored is not there: the same can be asked
// again.
TEST_P(EngineStore, WhatCannotBeStoredIsNotMade) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kTurn);
  const auto history = Continue(stored, "a", {}, Tokens(20, 1), 40);
  const auto exported = AwaitAnswer<ExportedSession>(
      [&](auto done) { return stored.engine().ExportSession("a", std::move(done)); });
  ASSERT_TRUE(exported.ok()) << exported.status();
  const auto create = [&] { return stored.engine().CreateSession({.id = "b"}); };
  const auto fork = [&] {
    return ForkSession(stored.engine(), {.session = "a", .id = "b"});
  };
  const auto import = [&] {
    return AwaitAnswer<SessionFacts>([&](auto done) {
      return stored.engine().ImportSession({.id = "b", .snapshot = exported->snapshot},
                                           std::move(done));
    });
  };
  for (const std::function<absl::StatusOr<SessionFacts>()>& make :
       {std::function<absl::StatusOr<SessionFacts>()>(create), {fork}, {import}}) {
    stored.files->Fail(DiskFault::kFull);
    const auto refused = make();
    EXPECT_EQ(ReasonOf(refused.status()), "STORE_FULL") << refused.status();
    EXPECT_FALSE(stored.engine().GetSession("b").ok());
    stored.files->Fail(DiskFault::kNone);
    absl::StatusOr<SessionFacts> made;
    Eventually([&] { return (made = make()).ok(); });
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(stored.engine().DeleteSession("b").ok());
  }
  CheckGoesOn(stored, "a", history);
}

TEST_P(EngineStore, ExpiredSessionsLeaveTheStore) {
  {
    StoredServer stored(Path(), GetParam());
    SessionSettings settings;
    settings.ttl = std::chrono::milliseconds(50000);
    ASSERT_TRUE(stored.engine().CreateSession({.id = "a", .settings = settings}).ok());
    ASSERT_TRUE(stored.engine().CreateSession({.id = "b"}).ok());
    stored.server->clock.Advance(std::chrono::milliseconds(50001));
    EXPECT_EQ(ReasonOf(stored.engine().GetSession("a").status()), "SESSION_EXPIRED");
  }
  StoredServer stored(Path(), GetParam());
  EXPECT_EQ(stored.engine().recovery().sessions, 1);
  EXPECT_EQ(ReasonOf(stored.engine().GetSession("a").status()), "SESSION_NOT_FOUND");
}

constexpr char kRequest[] = "01234567-89ab-cdef-0123-456789abcdef";

// What a stream gave before the kill and after it is what the undisturbed one gives.
TEST_P(EngineStore, AnOpenCallIsResumedAfterAKill) {
  for (const Durability durability : {Durability::kTurn, Durability::kAlways}) {
    const std::string name = durability == Durability::kTurn ? "turn" : "always";
    StoredServer stored(Path(name), GetParam());
    stored.CreateSession("a", durability);
    Continue(stored, "a", {}, Tokens(20, 1), 40);
    GenerateRequest request = Ask(Tokens(9, 2), 300, "a");
    request.request_id = kRequest;
    request.sampling.repetition_penalty = 1.3F;
    request.sampling.penalty_window_tokens = 50;
    Reader reader(stored.engine(), request);
    std::vector<int32_t> whole;
    int64_t last = -1;
    for (const size_t at : {0u, 1u, 70u, 200u}) {
      while (reader.so_far().tokens.size() < at) reader.Next();
      const std::vector<int32_t> before = reader.so_far().tokens;
      if (!before.empty()) {
        last = reader.so_far().first_index + static_cast<int64_t>(before.size()) - 1;
      }
      const std::string copy = Path(name + std::to_string(at));
      stored.CopyAfterKill(copy);
      StoredServer again(copy, GetParam());
      GenerateRequest resume = request;
      resume.resume_after = last;
      const Outcome rest = Reader(again.engine(), resume).Finish();
      if (at == 0 && ReasonOf(rest.status) == "REQUEST_UNKNOWN") continue;
      ASSERT_TRUE(rest.status.ok()) << at << ": " << rest.status;
      whole = Joined(before, rest.tokens);
      EXPECT_EQ(whole.size(), 300u);
      const Outcome repeated = Reader(again.engine(), request).Finish();
      ASSERT_TRUE(repeated.status.ok()) << repeated.status;
      EXPECT_EQ(repeated.tokens, whole);
    }
    const Outcome undisturbed = reader.Finish();
    ASSERT_TRUE(undisturbed.status.ok()) << undisturbed.status;
    EXPECT_EQ(undisturbed.tokens, whole);
  }
}

// Killed while the prompt is computed.
TEST_P(EngineStore, AKillWithinAPromptLosesNothing) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kAlways);
  Continue(stored, "a", {}, Tokens(20, 1), 40);
  stored.server->decoder.Allow(2);
  GenerateRequest request = Ask(Tokens(900, 2), 30, "a");
  request.request_id = kRequest;
  Reader reader(stored.engine(), request);
  stored.server->decoder.AwaitHeld();
  // Until its beginning is in the store.
  const auto begun = [&] {
    std::filesystem::remove_all(Path("copy"));
    stored.CopyAfterKill(Path("copy"));
    StoredServer look(Path("copy"), GetParam());
    return look.engine().GetSession("a")->state == SessionState::kDetached;
  };
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!begun()) ASSERT_LT(std::chrono::steady_clock::now(), limit);
  std::filesystem::remove_all(Path("copy"));
  stored.CopyAfterKill(Path("copy"));
  stored.server->decoder.AllowAll();
  const Outcome undisturbed = reader.Finish();
  ASSERT_TRUE(undisturbed.status.ok()) << undisturbed.status;
  StoredServer again(Path("copy"), GetParam());
  EXPECT_EQ(again.engine().GetSession("a")->state, SessionState::kDetached);
  GenerateRequest resume = request;
  resume.resume_after = -1;
  const Outcome rest = Reader(again.engine(), resume).Finish();
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_EQ(rest.tokens, undisturbed.tokens);
}

// Also while a call runs on it.
TEST_P(EngineStore, TheLevelOfASessionCanChange) {
  StoredServer stored(Path(), GetParam());
  stored.CreateSession("a", Durability::kTurn);
  std::vector<int32_t> a = Continue(stored, "a", {}, Tokens(20, 1), 40);
  Reader reader(stored.engine(), Ask(Tokens(4, 2), 300, "a"));
  while (reader.so_far().tokens.size() < 20) reader.Next();
  UpdateSessionRequest update{.session = "a"};
  update.settings.durability = Durability::kNone;
  ASSERT_TRUE(stored.engine().UpdateSession(update).ok());
  const Outcome outcome = reader.Finish();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  a = Joined(Joined(a, Tokens(4, 2)), outcome.tokens);
  stored.CopyAfterPowerFailure(Path("none"));
  {
    StoredServer again(Path("none"), GetParam());
    EXPECT_EQ(again.engine().recovery().sessions, 0);
  }
  update.settings.durability = Durability::kAlways;
  const auto updated = stored.engine().UpdateSession(update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->durability, Durability::kAlways);
  a = Continue(stored, "a", a, Tokens(3, 3), 10);
  stored.CopyAfterPowerFailure(Path("always"));
  StoredServer again(Path("always"), GetParam());
  CheckGoesOn(again, "a", a);
}

INSTANTIATE_TEST_SUITE_P(All, EngineStore, testing::ValuesIn(kToyStates),
                         [](const testing::TestParamInfo<ToyState>& info) {
                           return ToyName(info.param);
                         });

}  // namespace
}  // namespace mnemon
