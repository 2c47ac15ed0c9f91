// SPDX-License-Identifier: MIT
#include "server/durability/journal_state.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

StoredSnapshot SnapshotOf(const std::string& name, int64_t tokens) {
  return {.name = name, .tokens = tokens, .computed = tokens};
}

std::string UsableName(const JournalSnapshots& snapshots, int64_t tokens) {
  const std::optional<StoredSnapshot> usable = snapshots.Usable(tokens);
  return usable ? usable->name : "none";
}

TEST(JournalSnapshots, UsesTheNewestThatTheHistoryStillHas) {
  JournalSnapshots snapshots({SnapshotOf("a", 10), SnapshotOf("b", 20)}, {});
  EXPECT_EQ(snapshots.newest_tokens(), 20);
  EXPECT_EQ(UsableName(snapshots, 30), "b");
  // The last token of a history is computed with its successor.
  EXPECT_EQ(UsableName(snapshots, 20), "a");
  snapshots.OnCut(15);
  EXPECT_EQ(snapshots.newest_tokens(), 15);
  EXPECT_EQ(UsableName(snapshots, 30), "a");
  snapshots.OnCut(5);
  EXPECT_EQ(UsableName(snapshots, 30), "none");
}

TEST(JournalSnapshots, UsesNoneBeforeItIsWritten) {
  JournalSnapshots snapshots({}, {});
  snapshots.BeginCopy();
  snapshots.Add(SnapshotOf("a", 10), 10);
  EXPECT_EQ(UsableName(snapshots, 30), "none");
  std::vector<std::string> names;
  snapshots.ListUnwritten(names);
  EXPECT_THAT(names, ElementsAre("a"));
  snapshots.SetWritten(names);
  EXPECT_EQ(UsableName(snapshots, 30), "a");
  names.clear();
  snapshots.ListUnwritten(names);
  EXPECT_THAT(names, IsEmpty());
}

TEST(JournalSnapshots, ACutSinceTheCopyCounts) {
  JournalSnapshots snapshots({}, {});
  snapshots.OnCut(3);
  snapshots.BeginCopy();
  snapshots.OnCut(7);
  snapshots.Add(SnapshotOf("a", 10), 10);
  EXPECT_EQ(snapshots.newest_tokens(), 7);
}

TEST(JournalSnapshots, DropsTheOldestFirst) {
  JournalSnapshots snapshots({SnapshotOf("a", 1), SnapshotOf("b", 2)}, {});
  std::vector<std::string> dropped;
  snapshots.DropOldest(1, dropped);
  EXPECT_THAT(dropped, ElementsAre("a"));
  EXPECT_FALSE(snapshots.Remove("a"));
  EXPECT_TRUE(snapshots.Remove("b"));
  EXPECT_THAT(snapshots.List(), IsEmpty());
}

TEST(JournalSnapshots, DropsThoseOfCheckpoints) {
  JournalSnapshots snapshots({SnapshotOf("a", 1)}, {});
  for (const std::string id : {"first", "second"}) {
    snapshots.AddCheckpoint(
        {.id = id, .request_id = "", .create_time = {}, .snapshot = SnapshotOf(id, 1)});
  }
  std::vector<std::string> dropped;
  EXPECT_FALSE(snapshots.DropCheckpoint("third", dropped));
  EXPECT_TRUE(snapshots.DropCheckpoint("first", dropped));
  EXPECT_EQ(snapshots.FindCheckpoint("first"), nullptr);
  ASSERT_NE(snapshots.FindCheckpoint("second"), nullptr);
  snapshots.DropAll(dropped);
  EXPECT_THAT(dropped, ElementsAre("first", "a", "second"));
  EXPECT_THAT(snapshots.checkpoints(), IsEmpty());
}

}  // namespace
}  // namespace mnemon
