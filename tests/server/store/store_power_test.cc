// SPDX-License-Identifier: MIT
// The session store when power fails, at any moment.
#include <atomic>
#include <filesystem>
#include <mutex>

#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/store/store_fixture.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int kPowerCommits = 200;
constexpr size_t kPowerSnapshotBytes = 6000;

class StorePower : public StoreFixture {
 protected:
  // What a power failure now would leave, as a store.
  void Fail(const UnsyncedFileSystem& files, PowerFailure failure,
            const std::string& copy) const {
    CopyStoreAfterPowerFailure(files, Path(), failure, copy);
  }

  static absl::StatusOr<Contents> Reopen(const std::string& copy) {
    auto files = std::make_shared<UnsyncedFileSystem>();
    AdoptStore(*files, copy);
    absl::StatusOr<std::unique_ptr<SessionStore>> store =
        OpenSessionStoreOn(files, copy, {.memory_bytes = 4 << 20});
    if (!store.ok()) return store.status();
    // A power failure never raises an alarm.
    EXPECT_EQ((*store)->condition().lost_commits, 0u);
    EXPECT_EQ((*store)->condition().unreadable, 0);
    return ReadContents(**store);
  }
};

TEST_F(StorePower, LosesNothingThatWasSyncedWhereverItFails) {
  const std::vector<Contents> all =
      ScriptedContents(kPowerCommits, kPowerSnapshotBytes);
  auto files = std::make_shared<UnsyncedFileSystem>();
  auto store = *OpenSessionStoreOn(files, Path(), {.memory_bytes = 4 << 20});

  struct Failure {
    std::string copy;
    int synced;
  };
  std::mutex mutex;
  std::vector<Failure> failures;  // guarded by mutex
  std::atomic<int> synced = 0;
  files->Observe([&] {
    std::lock_guard lock(mutex);
    const size_t k = failures.size();
    failures.push_back({Path("copy" + std::to_string(k)), synced});
    Fail(*files, static_cast<PowerFailure>(k % 3), failures.back().copy);
  });
  for (int n = 1; n <= kPowerCommits; ++n) {
    const Sync sync = n % 3 == 0 ? Sync::kYes : Sync::kNo;
    ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kPowerSnapshotBytes), sync).ok());
    if (sync == Sync::kYes) synced = n;
    if (n % 70 == 0) {
      ASSERT_TRUE(store->Compact().ok());
    }
  }
  files->Observe(nullptr);
  store.reset();

  std::lock_guard lock(mutex);
  // Two for each sync, one for each other commit, and those of flushes and compactions.
  ASSERT_GT(failures.size(), 310u);
  int lost = 0;
  for (const Failure& failure : failures) {
    const absl::StatusOr<Contents> contents = Reopen(failure.copy);
    ASSERT_TRUE(contents.ok()) << contents.status() << " in " << failure.copy;
    const int found = PrefixOf(*contents, all);
    ASSERT_GE(found, failure.synced) << failure.copy;
    if (found < kPowerCommits) ++lost;
    fs::remove_all(failure.copy);
  }
  EXPECT_GT(lost, 250);
}

// The first opening, with its files and names, is no less at risk.
TEST_F(StorePower, LeavesAStoreThatOpensWhenItFailsDuringCreation) {
  auto files = std::make_shared<UnsyncedFileSystem>();
  std::mutex mutex;
  std::vector<std::string> copies;  // guarded by mutex
  files->Observe([&] {
    std::lock_guard lock(mutex);
    copies.push_back(Path("copy" + std::to_string(copies.size())));
    Fail(*files, static_cast<PowerFailure>(copies.size() % 3), copies.back());
  });
  auto store = *OpenSessionStoreOn(files, Path(), {});
  files->Observe(nullptr);
  store.reset();
  ASSERT_GT(copies.size(), 10u);
  for (const std::string& copy : copies) {
    const absl::StatusOr<Contents> contents = Reopen(copy);
    ASSERT_TRUE(contents.ok()) << contents.status() << " in " << copy;
    EXPECT_TRUE(contents->empty());
  }
}

// Recovery itself is cut short, again and again.
TEST_F(StorePower, MayFailWhileTheStoreIsOpened) {
  constexpr int kFew = 60;
  const std::vector<Contents> all = ScriptedContents(kFew, kPowerSnapshotBytes);
  auto files = std::make_shared<UnsyncedFileSystem>();
  auto store = *OpenSessionStoreOn(files, Path(), {.memory_bytes = 4 << 20});
  for (int n = 1; n <= kFew; ++n) {
    ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kPowerSnapshotBytes),
                            n <= 50 ? Sync::kYes : Sync::kNo)
                    .ok());
  }
  const std::string first = Path("first");
  Fail(*files, PowerFailure::kKeepsHalf, first);
  store.reset();

  auto again = std::make_shared<UnsyncedFileSystem>();
  AdoptStore(*again, first);
  std::mutex mutex;
  std::vector<std::string> copies;  // guarded by mutex
  again->Observe([&] {
    std::lock_guard lock(mutex);
    const std::string copy = Path("again" + std::to_string(copies.size()));
    CopyStoreAfterPowerFailure(*again, first,
                               static_cast<PowerFailure>(copies.size() % 3), copy);
    copies.push_back(copy);
  });
  auto reopened = *OpenSessionStoreOn(again, first, {.memory_bytes = 4 << 20});
  again->Observe(nullptr);
  const int found = PrefixOf(*ReadContents(*reopened), all);
  EXPECT_GE(found, 50);
  reopened.reset();
  ASSERT_GT(copies.size(), 10u);
  for (const std::string& copy : copies) {
    const absl::StatusOr<Contents> contents = Reopen(copy);
    ASSERT_TRUE(contents.ok()) << contents.status() << " in " << copy;
    EXPECT_EQ(PrefixOf(*contents, all), found) << copy;
  }
}

}  // namespace
}  // namespace mnemon
