// SPDX-License-Identifier: MIT
// When snapshots of sessions are written: at the end of a turn; where turns follow each
// other, once the session has rested, or when much is new.
#include <chrono>

#include "base/strings.h"
#include "tests/fakes/patience.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class SnapshotRest : public StoreFixture, public testing::WithParamInterface<ToyState> {
 protected:
  static int64_t Snapshots(StoredServer& stored) {
    return stored.engine().Stats().store->snapshots;
  }
  static bool AwaitSnapshots(StoredServer& stored, int64_t count) {
    return Eventually([&] { return Snapshots(stored) >= count; });
  }
  static void Turn(StoredServer& stored, const std::string& id, int64_t tokens) {
    const Outcome outcome = stored.server->Run(Ask({1, 2}, tokens, id));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  }
};

TEST_P(SnapshotRest, TurnsThatFollowEachOtherShareOne) {
  constexpr seconds kRest(2);
  std::vector<int32_t> history;
  const std::string copy = Path("copy");
  {
    StoredServer stored(Path(), GetParam(), {.snapshot_rest = kRest});
    stored.CreateSession("s", Durability::kTurn);
    const auto begin = steady_clock::now();
    for (int turn = 0; turn < 20; ++turn) {
      Turn(stored, "s", 3);
      // That of the first turn.
      if (turn == 0) {
        ASSERT_TRUE(AwaitSnapshots(stored, 1));
      }
      // Unless the machine stood still.
      if (steady_clock::now() - begin < kRest) {
        EXPECT_EQ(Snapshots(stored), 1);
      }
    }
    // Another one does not disturb its rest, nor the other way round.
    stored.CreateSession("other", Durability::kAlways);
    Turn(stored, "other", 3);
    stored.CopyAfterKill(copy);
    ASSERT_TRUE(AwaitSnapshots(stored, 3));
    history = HistoryOf(stored.engine(), "s");
    EXPECT_EQ(history.size(), 100u);
  }
  // What has no snapshot yet is in the journal.
  StoredServer killed(copy, GetParam());
  EXPECT_EQ(HistoryOf(killed.engine(), "s"), history);
}

TEST_P(SnapshotRest, MuchThatIsNewIsWrittenAtOnce) {
  StoredServer stored(Path(), GetParam(),
                      {.snapshot_rest = std::chrono::hours(1), .snapshot_tokens = 64});
  stored.CreateSession("s", Durability::kTurn);
  Turn(stored, "s", 3);
  EXPECT_TRUE(AwaitSnapshots(stored, 1));
  Turn(stored, "s", 40);
  EXPECT_EQ(Snapshots(stored), 1);
  // The same for a prompt after which no token is the 64th of a part.
  const Outcome long_prompt = stored.server->Run(Ask(Tokens(40, 1), 3, "s"));
  ASSERT_TRUE(long_prompt.status.ok()) << long_prompt.status;
  EXPECT_TRUE(AwaitSnapshots(stored, 2));
}

TEST_P(SnapshotRest, AStopDoesNotWaitForIt) {
  StoredServer stored(Path(), GetParam(), {.snapshot_rest = std::chrono::hours(1)});
  stored.CreateSession("s", Durability::kTurn);
  Turn(stored, "s", 10);
  EXPECT_TRUE(AwaitSnapshots(stored, 1));
  Turn(stored, "s", 10);
  EXPECT_EQ(Snapshots(stored), 1);
  EXPECT_TRUE(stored.engine().SaveSessions(steady_clock::now() + kPatience));
  EXPECT_EQ(Snapshots(stored), 2);
}

// States that may have to make way are written first, so that they need not be computed
// again.
TEST_P(SnapshotRest, WhereStatesAreManyThereIsNone) {
  StoredServer stored(Path(), GetParam(),
                      {.state_bytes = 1 << 13, .snapshot_rest = std::chrono::hours(1)},
                      128);
  // The second turn of each session follows its first.
  for (int made = 0; Snapshots(stored) <= made; ++made) {
    ASSERT_LT(made, 2000);
    const std::string id = StrCat("s", made);
    stored.CreateSession(id, Durability::kTurn);
    Turn(stored, id, 30);
    ASSERT_TRUE(AwaitSnapshots(stored, made + 1));
    Turn(stored, id, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(States, SnapshotRest, testing::ValuesIn(kToyStates),
                         [](const auto& info) { return ToyName(info.param); });

}  // namespace
}  // namespace mnemon
