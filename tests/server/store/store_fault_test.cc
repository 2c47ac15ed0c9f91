// SPDX-License-Identifier: MIT
// The session store on a disk that fails for a while.
#include <signal.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

#include "server/store/store_status.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/store/store_fixture.h"

// RocksDB 7.8 forgets an empty memtable when it cannot write its manifest.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:rocksdb::DBImpl::SwitchMemtable\n";
}

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int kCommits = 120;
constexpr size_t kSnapshotBytes = 40'000;

class StoreFault : public StoreFixture {
 protected:
  void RunWith(DiskFault fault, const std::string& reason, absl::StatusCode code) {
    const std::vector<Contents> all = ScriptedContents(kCommits, kSnapshotBytes);
    int round = 0;
    for (const int64_t after : {0, 1, 2, 3, 8, 21, 55, 144}) {
      const std::string name = "round" + std::to_string(round++);
      auto files = std::make_shared<UnsyncedFileSystem>();
      auto store = *OpenSessionStoreOn(files, Path(name), {.memory_bytes = 4 << 20});
      files->Fail(fault, after);

      int synced = 0, n = 1;
      absl::Status status;
      for (; n <= kCommits; ++n) {
        const Sync sync = n % 3 == 0 ? Sync::kYes : Sync::kNo;
        status = CommitOwned(*store, ScriptedCommit(n, kSnapshotBytes), sync);
        if (!status.ok()) break;
        if (sync == Sync::kYes) synced = n;
      }
      ASSERT_EQ(ReasonOf(status), reason) << after << ": " << status;
      ASSERT_EQ(status.code(), code);
      EXPECT_FALSE(store->healthy());

      // Another commit is refused without a try. Writes to other files are not counted:
      // the thread that makes a copy whole again may just be opening it.
      const int64_t log_writes = files->log_writes();
      EXPECT_EQ(PutRecord(*store, "more", RecordExpiry(0)), status);
      EXPECT_EQ(files->log_writes(), log_writes);
      const auto reading = ReadContents(*store);
      ASSERT_TRUE(reading.ok()) << reading.status();
      EXPECT_GE(PrefixOf(*reading, all), synced);
      EXPECT_EQ(ReasonOf(store->Recover()), reason);
      EXPECT_FALSE(store->healthy());
      EXPECT_TRUE(ReadContents(*store).ok());

      files->Fail(DiskFault::kNone);
      ASSERT_TRUE(store->Recover().ok()) << after;
      EXPECT_TRUE(store->healthy());
      const auto contents = ReadContents(*store);
      ASSERT_TRUE(contents.ok()) << contents.status();
      const int found = PrefixOf(*contents, all);
      ASSERT_GE(found, synced) << after;
      ASSERT_LE(found, n);

      // Nothing rests on what was written before a failed fsync.
      const auto after_power_failure = [&] {
        const std::string copy = Path(name + "-copy");
        fs::remove_all(copy);
        CopyStoreAfterPowerFailure(*files, Path(name), PowerFailure::kDropsAll, copy);
        auto copied =
            OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
        EXPECT_TRUE(copied.ok()) << copied.status();
        return copied.ok() ? PrefixOf(*ReadContents(**copied), all) : -1;
      };
      ASSERT_GE(after_power_failure(), synced) << after;
      const int next = std::min(found + 1, kCommits);
      ASSERT_TRUE(
          CommitOwned(*store, ScriptedCommit(next, kSnapshotBytes), Sync::kYes).ok());
      ASSERT_EQ(after_power_failure(), next) << after;
      store.reset();
      fs::remove_all(Path(name));
    }
  }
};

TEST_F(StoreFault, IsFullAndRecovers) {
  RunWith(DiskFault::kFull, "STORE_FULL", absl::StatusCode::kResourceExhausted);
}

TEST_F(StoreFault, WritesAPartAndRecovers) {
  RunWith(DiskFault::kShortWrite, "STORE_FULL", absl::StatusCode::kResourceExhausted);
}

TEST_F(StoreFault, MeetsAQuotaAndRecovers) {
  RunWith(DiskFault::kQuota, "STORE_FULL", absl::StatusCode::kResourceExhausted);
}

TEST_F(StoreFault, FailsToSyncAndRecovers) {
  RunWith(DiskFault::kSyncFails, "STORE_FAILED", absl::StatusCode::kUnavailable);
}

TEST_F(StoreFault, IsReadOnlyAndRecovers) {
  RunWith(DiskFault::kReadOnly, "STORE_READ_ONLY", absl::StatusCode::kUnavailable);
}

// What was written before a failed fsync can be read until then, and no later.
TEST_F(StoreFault, MayLosePowerWhileItRecoversFromAFailedSync) {
  constexpr int kFew = 30;
  const std::vector<Contents> all = ScriptedContents(kFew, kSnapshotBytes);
  auto files = std::make_shared<UnsyncedFileSystem>();
  auto store = *OpenSessionStoreOn(files, Path(), {});
  for (int n = 1; n <= kFew; ++n) {
    if (n == kFew) files->Fail(DiskFault::kSyncFails);
    const Sync sync = n == 20 || n == kFew ? Sync::kYes : Sync::kNo;
    ASSERT_EQ(CommitOwned(*store, ScriptedCommit(n, kSnapshotBytes), sync).ok(),
              n < kFew);
  }
  files->Fail(DiskFault::kNone);
  std::mutex mutex;
  std::vector<std::string> copies;  // guarded by mutex
  files->Observe([&] {
    std::lock_guard lock(mutex);
    const std::string copy = Path("copy" + std::to_string(copies.size()));
    CopyStoreAfterPowerFailure(
        *files, Path(),
        copies.size() % 2 == 0 ? PowerFailure::kDropsAll : PowerFailure::kKeepsHalf,
        copy);
    copies.push_back(copy);
  });
  ASSERT_TRUE(store->Recover().ok());
  ASSERT_TRUE(PutRecord(*store, "later", RecordExpiry(0)).ok());
  files->Observe(nullptr);
  ASSERT_GT(copies.size(), 20u);
  for (const std::string& copy : copies) {
    auto copied = OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
    ASSERT_TRUE(copied.ok()) << copied.status() << ' ' << copy;
    absl::StatusOr<Contents> contents = ReadContents(**copied);
    ASSERT_TRUE(contents.ok()) << contents.status();
    contents->erase({StoreTable::kSessions, "later", ""});
    EXPECT_GE(PrefixOf(*contents, all), 20) << copy;
  }
}

// The other one serves alone; the one that failed is opened again and filled, and what
// it had stays.
TEST_F(StoreFault, OfOneCopyCostsItNothing) {
  constexpr int kFew = 40;
  const std::vector<Contents> all = ScriptedContents(2 * kFew, kSnapshotBytes);
  struct Case {
    DiskFault fault;
    const char* copy;
    std::shared_ptr<UnsyncedFileSystem> files = std::make_shared<UnsyncedFileSystem>();
    std::unique_ptr<SessionStore> store = {};
    std::vector<fs::path> tables = {};
  };
  std::vector<Case> cases;
  for (const DiskFault fault :
       {DiskFault::kFull, DiskFault::kShortWrite, DiskFault::kSyncFails}) {
    for (const char* copy : {"/db/a", "/db/b"}) cases.push_back({fault, copy});
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    Case& one = cases[i];
    const std::string path = Path("store" + std::to_string(i));
    one.store = *OpenSessionStoreOn(one.files, path, {.memory_bytes = 4 << 20});
    ASSERT_TRUE(one.store->AwaitWhole(60));
    for (int n = 1; n <= 2 * kFew; ++n) {
      if (n == kFew) {
        ASSERT_TRUE(one.store->Compact().ok());
        for (const auto& file : fs::directory_iterator(path + one.copy)) {
          if (file.path().extension() == ".sst") one.tables.push_back(file.path());
        }
        one.files->Fail(one.fault, 0, one.copy);
      }
      ASSERT_TRUE(
          CommitOwned(*one.store, ScriptedCommit(n, kSnapshotBytes), Sync::kYes).ok());
    }
    EXPECT_EQ(one.store->condition().whole_copies, 1);
    EXPECT_TRUE(one.store->healthy());
    EXPECT_EQ(PrefixOf(*ReadContents(*one.store), all), 2 * kFew);
    ASSERT_FALSE(one.tables.empty());
  }
  for (const Case& one : cases) one.files->Fail(DiskFault::kNone);
  for (size_t i = 0; i < cases.size(); ++i) {
    Case& one = cases[i];
    ASSERT_TRUE(one.store->AwaitWhole(60)) << i;
    EXPECT_EQ(one.store->condition().rebuilds, 1) << i;
    EXPECT_TRUE(std::any_of(one.tables.begin(), one.tables.end(),
                            [](const fs::path& table) { return fs::exists(table); }))
        << i;
    one.store.reset();
    const std::string path = Path("store" + std::to_string(i));
    fs::remove_all(path + (one.copy == std::string("/db/a") ? "/db/b" : "/db/a"));
    const auto alone =
        OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), path, {});
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(PrefixOf(*ReadContents(**alone), all), 2 * kFew) << i;
  }
}

// The copy that cannot be opened just now may be the one that has what was synced.
TEST_F(StoreFault, AnOlderCopyDoesNotLeadWhileTheOtherCannotBeOpened) {
  constexpr int kFew = 20;
  auto files = std::make_shared<UnsyncedFileSystem>();
  for (const int until : {kFew / 2, kFew}) {
    auto store = *OpenSessionStoreOn(files, Path(), {});
    ASSERT_TRUE(store->AwaitWhole(60));
    for (int n = until - kFew / 2 + 1; n <= until; ++n) {
      ASSERT_TRUE(
          CommitOwned(*store, ScriptedCommit(n, kSnapshotBytes), Sync::kYes).ok());
    }
    store.reset();
    if (until < kFew) fs::copy(Path() + "/db/b", Path("old"));
  }
  fs::remove_all(Path() + "/db/b");
  fs::copy(Path("old"), Path() + "/db/b");
  files->RefuseToOpen("/db/a/");
  EXPECT_EQ(ReasonOf(OpenSessionStoreOn(files, Path(), {}).status()), "STORE_FAILED");
  files->RefuseToOpen("");
  const auto store = OpenSessionStoreOn(files, Path(), {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(PrefixOf(*ReadContents(**store), ScriptedContents(kFew, kSnapshotBytes)),
            kFew);
  EXPECT_TRUE((*store)->AwaitWhole(60));
  EXPECT_EQ((*store)->condition().lost_commits, 0u);
}

TEST_F(StoreFault, CannotBeOpenedOnAFullDisk) {
  auto files = std::make_shared<UnsyncedFileSystem>();
  files->Fail(DiskFault::kFull);
  const auto store = OpenSessionStoreOn(files, Path(), {});
  EXPECT_EQ(ReasonOf(store.status()), "STORE_FULL") << store.status();
  files->Fail(DiskFault::kNone);
  EXPECT_TRUE(OpenSessionStoreOn(files, Path(), {}).ok());
}

TEST_F(StoreFault, CannotBeOpenedOnAReadOnlyDisk) {
  auto files = std::make_shared<UnsyncedFileSystem>();
  files->Fail(DiskFault::kReadOnly);
  const absl::Status status = OpenSessionStoreOn(files, Path(), {}).status();
  EXPECT_EQ(ReasonOf(status), "STORE_READ_ONLY") << status;
  files->Fail(DiskFault::kNone);
  EXPECT_TRUE(OpenSessionStoreOn(files, Path(), {}).ok());
}

// The disk breaks again while Recover opens the store.
TEST_F(StoreFault, StaysUnreadableWhenRecoverFailsHalfWay) {
  auto files = std::make_shared<UnsyncedFileSystem>();
  auto store = *OpenSessionStoreOn(files, Path(), {});
  ASSERT_TRUE(PutRecord(*store, "a", RecordExpiry(0) + "1").ok());
  files->Fail(DiskFault::kSyncFails);
  ASSERT_FALSE(PutRecord(*store, "a", RecordExpiry(0) + "2").ok());
  files->Fail(DiskFault::kFull, 8);
  EXPECT_EQ(ReasonOf(store->Recover()), "STORE_FULL");
  EXPECT_EQ(ReasonOf(store->Get(StoreTable::kSessions, {.id = "a"}, "").status()),
            "STORE_FULL");
  EXPECT_EQ(ReasonOf(store->Compact()), "STORE_FULL");
  EXPECT_EQ(store->memory_bytes(), 0);
  files->Fail(DiskFault::kNone);
  EXPECT_TRUE(store->Recover().ok());
  const auto value = store->Get(StoreTable::kSessions, {.id = "a"}, "");
  ASSERT_TRUE(value.ok() && *value);
}

TEST_F(StoreFault, KeepsWhatThreadsHaveSyncedThroughManyFaults) {
  auto files = std::make_shared<UnsyncedFileSystem>();
  auto store = *OpenSessionStoreOn(files, Path(), {.memory_bytes = 4 << 20});
  constexpr int kThreads = 4;
  std::atomic<bool> done = false;
  std::array<std::atomic<int>, kThreads> synced{};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string id = "s" + std::to_string(t);
      for (int n = 1; !done; ++n) {
        if (PutRecord(*store, id, RecordExpiry(0) + std::to_string(n)).ok()) {
          synced[static_cast<size_t>(t)] = n;
        }
        const auto value = store->Get(StoreTable::kSessions, {.id = id}, "");
        EXPECT_TRUE(value.ok()) << value.status();
      }
    });
  }
  for (const std::atomic<int>& first : synced) {
    while (first == 0) std::this_thread::yield();
  }
  for (int round = 0; round < 6; ++round) {
    files->Fail(round % 2 == 0 ? DiskFault::kSyncFails : DiskFault::kShortWrite, round);
    while (store->healthy()) std::this_thread::yield();
    files->Fail(DiskFault::kNone);
    EXPECT_TRUE(store->Recover().ok());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  const std::string copy = Path("copy");
  CopyStoreAfterPowerFailure(*files, Path(), PowerFailure::kDropsAll, copy);
  auto copied = OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
  ASSERT_TRUE(copied.ok()) << copied.status();
  for (int t = 0; t < kThreads; ++t) {
    const std::string id = "s" + std::to_string(t);
    const auto value = (*copied)->Get(StoreTable::kSessions, {.id = id}, "");
    ASSERT_TRUE(value.ok() && *value) << t;
    EXPECT_GE(std::stoi((*value)->substr(8)), synced[static_cast<size_t>(t)]) << t;
  }
}

// No fake: the system's own error, and the system's file.
TEST_F(StoreFault, MeetsTheFileSizeLimit) {
  auto store = *OpenSessionStore(Path());
  ASSERT_TRUE(PutRecord(*store, "a", RecordExpiry(0)).ok());
  const auto signal_before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit less = before;
  less.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &less), 0);
  const absl::Status status = CommitOwned(*store,
                                          {{.table = StoreTable::kCheckpoints,
                                            .id = "a",
                                            .name = "n",
                                            .value = std::string(200'000, 'x')}},
                                          Sync::kYes);
  const absl::Status recovery = store->Recover();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, signal_before);
  EXPECT_EQ(ReasonOf(status), "STORE_FULL") << status;
  EXPECT_EQ(ReasonOf(recovery), "STORE_FULL") << recovery;
  ASSERT_TRUE(store->Recover().ok());
  const auto value = store->Get(StoreTable::kSessions, {.id = "a"}, "");
  EXPECT_TRUE(value.ok() && *value);
}

TEST(StoreStatus, WantOfDescriptorsOrMemoryIsNoDamage) {
  const auto failed = [](int error) {
    return IsDamage(rocksdb::Status::IOError("While opening",
                                             std::system_category().message(error)));
  };
  for (const int error : {EMFILE, ENFILE, ENOMEM}) EXPECT_FALSE(failed(error)) << error;
  EXPECT_TRUE(failed(EIO));
  EXPECT_TRUE(IsDamage(rocksdb::Status::Corruption("a block")));
}

TEST(StoreStatus, KnowsWhatTheSystemSaid) {
  const auto reason = [](int error) {
    const std::optional<ErrorDetail> detail =
        GetErrorDetail(StoreStatus(rocksdb::Status::IOError(
            "While writing", std::system_category().message(error))));
    return detail ? detail->reason : "";
  };
  EXPECT_EQ(reason(ENOSPC), "STORE_FULL");
  EXPECT_EQ(reason(EDQUOT), "STORE_FULL");
  EXPECT_EQ(reason(EFBIG), "STORE_FULL");
  EXPECT_EQ(reason(EROFS), "STORE_READ_ONLY");
  EXPECT_EQ(reason(EIO), "STORE_FAILED");
  EXPECT_TRUE(StoreStatus(rocksdb::Status::OK()).ok());
  const absl::Status damaged =
      StoreStatus(rocksdb::Status::Corruption("bad block", "/var/lib/x/000012.sst"));
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(std::string(damaged.message()).find('/'), std::string::npos);
}

}  // namespace
}  // namespace mnemon
