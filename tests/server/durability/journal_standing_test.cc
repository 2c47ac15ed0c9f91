// SPDX-License-Identifier: MIT
#include "server/durability/journal_state.h"

#include <vector>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

using State = JournalStanding::State;

struct Deleted {
  TakenChanges taken;
  GatheredChanges gathered;
  std::vector<OnSynced> deleters;
  bool rest = false;
};

// One waits for the deletion, and two for what was gathered.
Deleted Delete(JournalStanding& standing) {
  Deleted deleted;
  deleted.deleters.resize(1);
  deleted.gathered.waiters.resize(2);
  deleted.gathered.record = true;
  deleted.gathered.dropped = {"snapshot"};
  standing.deletion.due = true;
  deleted.rest =
      standing.TakeDeletion(deleted.taken, deleted.gathered, deleted.deleters);
  EXPECT_FALSE(standing.deletion.due);
  EXPECT_TRUE(deleted.taken.anything && deleted.taken.deleted && deleted.taken.sync);
  return deleted;
}

TEST(JournalStanding, GathersOnceThereIsWhatToGoOnFrom) {
  JournalStanding standing{.durability = Durability::kTurn};
  EXPECT_TRUE(standing.Gathers());
  standing.NeedBase();
  EXPECT_FALSE(standing.Gathers());
  standing.copies_base = true;
  EXPECT_TRUE(standing.Gathers());
  standing.durability = Durability::kNone;
  EXPECT_FALSE(standing.Gathers());
}

TEST(JournalStanding, EndsWhatWaitsForWhatIsLost) {
  JournalStanding standing{.durability = Durability::kTurn};
  EXPECT_TRUE(standing.End("anna").ok());
  standing.Fail(absl::UnavailableError("no disk"));
  EXPECT_TRUE(absl::IsUnavailable(standing.End("anna")));
  EXPECT_TRUE(standing.unreported);
  standing.durability = Durability::kNone;
  EXPECT_TRUE(standing.End("anna").ok());
  standing.deletion.unstoring = true;
  EXPECT_TRUE(absl::IsUnavailable(standing.End("anna")));
  standing.state = State::kDeleted;
  EXPECT_TRUE(absl::IsNotFound(standing.End("anna")));
}

TEST(JournalStanding, ADeletionThatIsTriedTakesNothingElse) {
  JournalStanding standing{.durability = Durability::kTurn};
  standing.deletion.tried = true;
  const Deleted deleted = Delete(standing);
  EXPECT_FALSE(deleted.rest);
  EXPECT_TRUE(standing.deletion.taken);
  EXPECT_EQ(deleted.taken.waiters.size(), 1u);
  EXPECT_EQ(deleted.gathered.waiters.size(), 2u);
  EXPECT_TRUE(deleted.gathered.record);
}

TEST(JournalStanding, WhatIsDurableAgainIsWrittenNext) {
  JournalStanding standing{.durability = Durability::kTurn};
  const Deleted deleted = Delete(standing);
  EXPECT_FALSE(deleted.rest);
  EXPECT_TRUE(deleted.taken.again);
  EXPECT_TRUE(deleted.gathered.record);
}

TEST(JournalStanding, WhoWaitsForWhatIsDurableNoMoreIsTaken) {
  JournalStanding standing{.durability = Durability::kNone};
  const Deleted deleted = Delete(standing);
  EXPECT_TRUE(deleted.rest);
  EXPECT_EQ(deleted.taken.waiters.size(), 2u);
  EXPECT_EQ(deleted.taken.dropped.size(), 1u);
  EXPECT_FALSE(deleted.gathered.record);
}

TEST(JournalStanding, WhoWaitsForASessionThatIsGoneIsRefused) {
  JournalStanding standing{.durability = Durability::kTurn, .state = State::kDeleted};
  const Deleted deleted = Delete(standing);
  EXPECT_TRUE(deleted.rest);
  EXPECT_EQ(deleted.taken.refused.size(), 2u);
  EXPECT_EQ(deleted.taken.waiters.size(), 1u);
  EXPECT_TRUE(deleted.gathered.waiters.empty());
}

}  // namespace
}  // namespace mnemon
