// SPDX-License-Identifier: MIT
// Sessions of every level while streams run and their store meets a disk that fails,
// and goes well again without a restart.
#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/durability/stored_server.h"
#include "tests/server/engine/scorer.h"

namespace mnemon {
namespace {

// The fault, and the operation of the disk from which on it meets it.
using Failing = std::tuple<DiskFault, int>;

std::string FaultName(DiskFault fault) {
  switch (fault) {
    case DiskFault::kNone:
      break;
    case DiskFault::kFull:
      return "Full";
    case DiskFault::kShortWrite:
      return "ShortWrite";
    case DiskFault::kQuota:
      return "Quota";
    case DiskFault::kSyncFails:
      return "SyncFails";
    case DiskFault::kReadOnly:
      return "ReadOnly";
  }
  return "None";
}

std::string ReasonFor(DiskFault fault) {
  if (fault == DiskFault::kReadOnly) return "STORE_READ_ONLY";
  return fault == DiskFault::kSyncFails ? "STORE_FAILED" : "STORE_FULL";
}

class EngineStoreFault : public StoreFixture,
                         public testing::WithParamInterface<Failing> {
 protected:
  static constexpr ToyState kState = ToyState::kFixedAndAppend;

  static void ExpectBegins(const std::vector<int32_t>& history,
                           const std::vector<int32_t>& with) {
    ASSERT_GE(history.size(), with.size());
    EXPECT_TRUE(std::equal(with.begin(), with.end(), history.begin()));
  }

  // Runs a turn, and compares it with that of a call without a session.
  static std::vector<int32_t> GoOn(StoredServer& stored, const std::string& session,
                                   uint32_t seed) {
    const std::vector<int32_t> before = HistoryOf(stored.engine(), session);
    const std::vector<int32_t> prompt = Tokens(4, seed);
    const Outcome outcome = stored.server->Run(Ask(prompt, 30, session));
    EXPECT_TRUE(outcome.status.ok()) << session << ": " << outcome.status;
    const std::vector<int32_t> whole = Joined(before, prompt);
    EXPECT_EQ(outcome.tokens, stored.server->Run(Ask(whole, 30)).tokens) << session;
    return Joined(whole, outcome.tokens);
  }
};

TEST_P(EngineStoreFault, LosesNoTokenThatWasAcknowledged) {
  const auto [fault, after] = GetParam();
  StoredServer stored(Path(), kState);
  const std::vector<std::string> ids = {"turn", "always", "none"};
  stored.CreateSession("turn", Durability::kTurn);
  stored.CreateSession("always", Durability::kAlways);
  stored.CreateSession("none", Durability::kNone);
  const std::vector<int32_t> prompt = Tokens(9, 2);
  std::vector<std::vector<int32_t>> finished;
  std::vector<std::unique_ptr<Reader>> readers;
  for (const std::string& id : ids) {
    const Outcome first = stored.server->Run(Ask(Tokens(20, 1), 40, id));
    ASSERT_TRUE(first.status.ok()) << first.status;
    finished.push_back(Joined(Tokens(20, 1), first.tokens));
    readers.push_back(std::make_unique<Reader>(stored.engine(), Ask(prompt, 900, id)));
    while (readers.back()->so_far().tokens.size() < 50) readers.back()->Next();
  }
  stored.files->Fail(fault, after);
  std::vector<Outcome> ends;
  for (auto& reader : readers) ends.push_back(reader->Finish());
  for (const int durable : {0, 1}) {
    EXPECT_EQ(ReasonOf(ends[durable].status), ReasonFor(fault)) << ends[durable].status;
  }
  // At the other level only the end waits for a sync.
  EXPECT_LT(ends[1].tokens.size(), 900u);
  ASSERT_TRUE(ends[2].status.ok()) << ends[2].status;
  EXPECT_EQ(ends[2].tokens,
            stored.server->Run(Ask(Joined(finished[2], prompt), 900)).tokens);
  EXPECT_FALSE(stored.engine().Stats().store->healthy);
  const auto refused = stored.server->Run(Ask(Tokens(1, 1), 1, "always"));
  EXPECT_EQ(ReasonOf(refused.status), ReasonFor(fault));
  EXPECT_TRUE(stored.server->Run(Ask(Tokens(1, 1), 1, "none")).status.ok());

  // What was delivered: synced with each token, or written and synced with the turn.
  const std::vector<int32_t> turn = finished[0];
  const std::vector<int32_t> always =
      Joined(Joined(finished[1], prompt), ends[1].tokens);
  stored.CopyAfterPowerFailure(Path("failed"));
  {
    StoredServer again(Path("failed"), kState);
    ExpectBegins(HistoryOf(again.engine(), "turn"), turn);
    ExpectBegins(HistoryOf(again.engine(), "always"), always);
    GoOn(again, "turn", 5);
    GoOn(again, "always", 5);
    EXPECT_EQ(ReasonOf(again.engine().GetSession("none").status()),
              "SESSION_NOT_FOUND");
  }

  stored.files->Fail(DiskFault::kNone);
  EXPECT_TRUE(
      Eventually([&] { return stored.engine().CreateSession({.id = "new"}).ok(); }));
  EXPECT_TRUE(stored.engine().Stats().store->healthy);
  ExpectBegins(HistoryOf(stored.engine(), "turn"),
               Joined(Joined(turn, prompt), ends[0].tokens));
  ExpectBegins(HistoryOf(stored.engine(), "always"), always);
  std::vector<std::vector<int32_t>> whole;
  for (const std::string& id : ids) whole.push_back(GoOn(stored, id, 8));
  stored.CopyAfterPowerFailure(Path("well"));
  StoredServer again(Path("well"), kState);
  EXPECT_EQ(again.engine().recovery().sessions, 3);
  EXPECT_EQ(HistoryOf(again.engine(), "turn"), whole[0]);
  EXPECT_EQ(HistoryOf(again.engine(), "always"), whole[1]);
  GoOn(again, "turn", 9);
  GoOn(again, "always", 9);
}

// What a caller sees of all sessions.
std::string Seen(Engine& engine) {
  std::string text;
  const absl::StatusOr<SessionPage> page = engine.ListSessions({});
  EXPECT_TRUE(page.ok()) << page.status();
  for (const SessionFacts& facts :
       page.ok() ? page->sessions : std::vector<SessionFacts>()) {
    text += StrCat(facts.id, " ", facts.etag, " ", facts.position, " ",
                   static_cast<int>(facts.durability), " ",
                   facts.paused ? "paused" : "", facts.sampling ? " sampling" : "");
    if (facts.expire_time) {
      text += StrCat(" until ", facts.expire_time->time_since_epoch().count());
    }
    for (const CheckpointFacts& checkpoint : facts.checkpoints) {
      text += StrCat(" ", checkpoint.id, "@", checkpoint.position);
    }
    for (const int32_t token : HistoryOf(engine, facts.id)) text += StrCat(" ", token);
    text += "\n";
  }
  return text;
}

struct Change {
  const char* name;
  std::function<absl::Status(Engine&, const std::string& snapshot)> make;
};

absl::Status Update(Engine& engine, const SessionSettings& settings) {
  return engine.UpdateSession({.session = "s", .settings = settings}).status();
}

std::vector<Change> Changes() {
  return {
      {"create",
       [](Engine& engine, const auto&) {
         return engine.CreateSession({.id = "t"}).status();
       }},
      {"delete", [](Engine& engine, const auto&) { return engine.DeleteSession("s"); }},
      {"fork",
       [](Engine& engine, const auto&) {
         return ForkSession(engine, {.session = "s", .id = "t"}).status();
       }},
      {"import",
       [](Engine& engine, const auto& snapshot) {
         return AwaitAnswer<SessionFacts>([&](auto done) {
                  return engine.ImportSession({.id = "t", .snapshot = snapshot}, done);
                })
             .status();
       }},
      {"checkpoint",
       [](Engine& engine, const auto&) {
         return CheckpointSession(engine, {.session = "s", .id = "d"}).status();
       }},
      {"settings",
       [](Engine& engine, const auto&) {
         SessionSettings settings;
         settings.ttl = std::chrono::seconds(500);
         settings.paused = true;
         settings.sampling.emplace();
         return Update(engine, settings);
       }},
      {"rewind",
       [](Engine& engine, const auto&) {
         return RewindSession(engine, {.session = "s", .target = int64_t{11}}).status();
       }},
      {"rewind to a checkpoint",
       [](Engine& engine, const auto&) {
         return RewindSession(engine, {.session = "s", .target = std::string("c")})
             .status();
       }},
      {"score",
       [](Engine& engine, const auto&) {
         Scorer scorer(engine, {.session = "s",
                                .commit = true,
                                .request_id = "00000000-0000-4000-8000-000000000001"});
         if (!scorer.status().ok()) return scorer.status();
         const absl::Status appended = scorer.Append(Tokens(5, 4));
         return appended.ok() ? scorer.Finish().status : appended;
       }},
      {"durability none",
       [](Engine& engine, const auto&) {
         SessionSettings settings;
         settings.durability = Durability::kNone;
         return Update(engine, settings);
       }},
      {"durability always",
       [](Engine& engine, const auto&) {
         SessionSettings settings;
         settings.durability = Durability::kAlways;
         return Update(engine, settings);
       }},
  };
}

TEST_P(EngineStoreFault, ARefusedChangeChangesNothing) {
  const auto [fault, after] = GetParam();
  int refused = 0;
  const std::vector<Change> changes = Changes();
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    StoredServer stored(Path(change.name), kState);
    SessionSettings settings;
    settings.ttl = std::chrono::seconds(900);
    ASSERT_TRUE(stored.engine().CreateSession({.id = "s", .settings = settings}).ok());
    ASSERT_TRUE(stored.server->Run(Ask(Tokens(9, 1), 5, "s")).status.ok());
    ASSERT_TRUE(CheckpointSession(stored.engine(), {.session = "s", .id = "c"}).ok());
    ASSERT_TRUE(stored.server->Run(Ask(Tokens(3, 2), 4, "s")).status.ok());
    const auto exported = AwaitAnswer<ExportedSession>(
        [&](auto done) { return stored.engine().ExportSession("s", done); });
    ASSERT_TRUE(exported.ok()) << exported.status();
    ASSERT_TRUE(stored.engine().SaveSessions(std::chrono::steady_clock::now() +
                                             std::chrono::seconds(60)));
    const std::string before = Seen(stored.engine());
    stored.files->Fail(fault, after);
    const absl::Status status = change.make(stored.engine(), exported->snapshot);
    const std::string then = Seen(stored.engine());
    stored.files->Fail(DiskFault::kNone);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(ReasonOf(status), ReasonFor(fault)) << status;
    EXPECT_EQ(then, before);
    EXPECT_TRUE(
        Eventually([&] { return stored.engine().CreateSession({.id = "new"}).ok(); }));
    ASSERT_TRUE(stored.engine().DeleteSession("new").ok());
    EXPECT_EQ(Seen(stored.engine()), before);
    const std::vector<int32_t> whole = GoOn(stored, "s", 8);
    // And what the store has is the same.
    const std::string copy = Path(StrCat(change.name, " after a power failure"));
    stored.CopyAfterPowerFailure(copy);
    StoredServer again(copy, kState);
    EXPECT_EQ(HistoryOf(again.engine(), "s"), whole);
    EXPECT_EQ(again.engine().recovery().sessions, 1);
    GoOn(again, "s", 9);
  }
  if (after == 0) {
    EXPECT_EQ(refused, static_cast<int>(changes.size()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Disks, EngineStoreFault,
    testing::Combine(testing::Values(DiskFault::kFull, DiskFault::kShortWrite,
                                     DiskFault::kQuota, DiskFault::kSyncFails,
                                     DiskFault::kReadOnly),
                     testing::Values(0, 1, 2, 6)),
    [](const testing::TestParamInfo<Failing>& info) {
      return FaultName(std::get<0>(info.param)) +
             std::to_string(std::get<1>(info.param));
    });

}  // namespace
}  // namespace mnemon
