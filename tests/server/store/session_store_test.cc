// SPDX-License-Identifier: MIT
#include "server/store/session_store.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/process/child_process.h"
#include "gmock/gmock.h"
#include "server/store/store_environment.h"
#include "tests/fakes/patience.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/store/store_fixture.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SessionStoreTest : public StoreFixture {
 protected:
  std::unique_ptr<SessionStore> Open(const SessionStoreOptions& options = {}) {
    absl::StatusOr<std::unique_ptr<SessionStore>> store =
        OpenSessionStoreOn(files_, Path(), options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static std::vector<std::string> Ids(SessionStore& store, StoreTable table,
                                      const StoreRange& range) {
    std::vector<std::string> ids;
    EXPECT_TRUE(
        store
            .Scan(
                table, range,
                [&](const SessionKey& key, std::string_view name, std::string_view) {
                  ids.push_back(std::string(key.id) + ":" + std::string(name));
                  return true;
                },
                nullptr)
            .ok());
    return ids;
  }
  static std::optional<std::string> Read(SessionStore& store, StoreTable table,
                                         const std::string& id,
                                         const std::string& name = "") {
    const auto value = store.Get(table, {.id = id}, name);
    EXPECT_TRUE(value.ok()) << value.status();
    return value.value_or(std::nullopt);
  }

  std::shared_ptr<UnsyncedFileSystem> files_ = std::make_shared<UnsyncedFileSystem>();
};

TEST_F(SessionStoreTest, KeepsWhatWasCommitted) {
  std::unique_ptr<SessionStore> store = Open();
  EXPECT_EQ(Read(*store, StoreTable::kSessions, "a"), std::nullopt);
  ASSERT_TRUE(
      CommitOwned(
          *store,
          {{.table = StoreTable::kSessions, .id = "a", .value = std::string("\0x", 2)},
           {.table = StoreTable::kJournal, .id = "a", .name = JournalName(7)},
           {.table = StoreTable::kCheckpoints,
            .id = "a",
            .name = "n",
            .value = "blob"}},
          Sync::kNo)
          .ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Read(*store, StoreTable::kSessions, "a"), std::string("\0x", 2));
    EXPECT_EQ(Read(*store, StoreTable::kJournal, "a", JournalName(7)), "");
    EXPECT_EQ(Read(*store, StoreTable::kCheckpoints, "a", "n"), "blob");
    store.reset();
    store = Open();
  }
  ASSERT_TRUE(CommitOwned(*store,
                          {{.table = StoreTable::kSessions,
                            .kind = StoreChange::Kind::kDelete,
                            .id = "a"}},
                          Sync::kYes)
                  .ok());
  EXPECT_EQ(Read(*store, StoreTable::kSessions, "a"), std::nullopt);
}

TEST_F(SessionStoreTest, ConvertsNumbers) {
  EXPECT_EQ(RecordExpiry(0x0102030405060708), "\x08\x07\x06\x05\x04\x03\x02\x01");
  EXPECT_EQ(JournalName(0x0102030405060708), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(JournalSequence(JournalName(~uint64_t{0})), ~uint64_t{0});
  EXPECT_EQ(JournalSequence("1234567"), std::nullopt);
}

TEST_F(SessionStoreTest, KeepsNeighboursApart) {
  std::unique_ptr<SessionStore> store = Open();
  const std::vector<std::string> ids = {
      "a", "a-", "a0", "a1", "aa", "b", std::string(63, 'z')};
  for (const std::string& id : ids) {
    for (const uint64_t n : {uint64_t{0}, uint64_t{255}, uint64_t{256}, ~uint64_t{0}}) {
      ASSERT_TRUE(
          CommitOwned(
              *store,
              {{.table = StoreTable::kJournal, .id = id, .name = JournalName(n)}},
              Sync::kNo)
              .ok());
    }
    ASSERT_TRUE(PutRecord(*store, id, "").ok());
  }
  for (const std::string& id : ids) {
    EXPECT_THAT(
        Ids(*store, StoreTable::kJournal, {.session = SessionKey{.id = id}}),
        ElementsAre(id + ":" + JournalName(0), id + ":" + JournalName(255),
                    id + ":" + JournalName(256), id + ":" + JournalName(~uint64_t{0})));
    EXPECT_THAT(Ids(*store, StoreTable::kSessions, {.session = SessionKey{.id = id}}),
                ElementsAre(id + ":"));
  }
  const std::string from = JournalName(256);
  EXPECT_EQ(Ids(*store, StoreTable::kJournal,
                {.session = SessionKey{.id = "a"}, .from = from})
                .size(),
            2u);
  EXPECT_EQ(Ids(*store, StoreTable::kSessions, {}).size(), ids.size());

  for (const StoreTable table : {StoreTable::kJournal, StoreTable::kSessions}) {
    ASSERT_TRUE(
        CommitOwned(
            *store,
            {{.table = table, .kind = StoreChange::Kind::kDeleteAll, .id = "a"}},
            Sync::kYes)
            .ok());
  }
  EXPECT_THAT(Ids(*store, StoreTable::kJournal, {.session = SessionKey{.id = "a"}}),
              IsEmpty());
  EXPECT_EQ(Ids(*store, StoreTable::kJournal, {}).size(), 4 * (ids.size() - 1));
  EXPECT_EQ(Ids(*store, StoreTable::kSessions, {}).size(), ids.size() - 1);
}

TEST_F(SessionStoreTest, RefusesWhatIsNoKey) {
  std::unique_ptr<SessionStore> store = Open();
  const auto put = [&](StoreTable table, const std::string& id,
                       const std::string& name) {
    return ReasonOf(
        CommitOwned(*store, {{.table = table, .id = id, .name = name}}, Sync::kYes));
  };
  EXPECT_EQ(put(StoreTable::kSessions, "", ""), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kSessions, "A", ""), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kSessions, std::string("a\0b", 3), ""), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kSessions, std::string(64, 'a'), ""), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kSessions, "a", "name"), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kJournal, "a", "1234567"), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kCheckpoints, "a", ""), "INVALID_VALUE");
  EXPECT_EQ(put(StoreTable::kCheckpoints, "a", std::string(256, 'n')), "INVALID_VALUE");
  EXPECT_EQ(ReasonOf(store->Get(StoreTable::kSessions, {.id = ".."}, "").status()),
            "INVALID_VALUE");
  const std::string half(SessionStore::kMaxChangeBytes / 2 + 1, 'x');
  const StoreChange change{
      .table = StoreTable::kCheckpoints, .name = "n", .value = half};
  std::vector<SessionChanges> sessions = {
      {.session = {.id = "a"}, .changes = {change, change}}};
  EXPECT_TRUE(store->Commit(sessions, Sync::kYes).ok());
  EXPECT_EQ(ReasonOf(sessions[0].status), "COMMIT_TOO_LARGE");
  EXPECT_TRUE(store->healthy());
  EXPECT_TRUE(ReadContents(*store)->empty());
}

// One session's failure is no other's.
TEST_F(SessionStoreTest, WritesTheOthersWhereOneSessionIsRefused) {
  std::unique_ptr<SessionStore> store = Open();
  const std::string record = RecordExpiry(0);
  const StoreChange good{.table = StoreTable::kSessions, .value = record};
  const StoreChange bad{.table = StoreTable::kJournal, .name = "1234567"};
  std::vector<SessionChanges> sessions = {
      {.session = {.id = "a"}, .changes = {good}},
      {.session = {.id = "b"}, .changes = {good, bad}},
      {.session = {.id = "c"}, .changes = {good}},
      {.session = {.id = "D"}, .changes = {good}}};
  ASSERT_TRUE(store->Commit(sessions, Sync::kYes).ok());
  EXPECT_TRUE(sessions[0].status.ok());
  EXPECT_EQ(ReasonOf(sessions[1].status), "INVALID_VALUE");
  EXPECT_TRUE(sessions[2].status.ok());
  EXPECT_EQ(ReasonOf(sessions[3].status), "INVALID_VALUE");
  EXPECT_THAT(Ids(*store, StoreTable::kSessions, {}), ElementsAre("a:", "c:"));
}

TEST_F(SessionStoreTest, KeepsNamespacesApart) {
  std::unique_ptr<SessionStore> store = Open();
  std::vector<SessionChanges> sessions;
  const std::string name = JournalName(1);
  for (const char* space : {"default", "a", "b"}) {
    sessions.push_back(
        {.session = {.id = "s", .space = space},
         .changes = {{.table = StoreTable::kSessions, .value = space},
                     {.table = StoreTable::kJournal, .name = name, .value = space}}});
  }
  ASSERT_TRUE(store->Commit(sessions, Sync::kYes).ok());
  for (const char* space : {"default", "a", "b"}) {
    const SessionKey key{.id = "s", .space = space};
    EXPECT_EQ(store->Get(StoreTable::kSessions, key, "")->value_or(""), space);
    int found = 0;
    ASSERT_TRUE(store
                    ->Scan(
                        StoreTable::kJournal, {.session = key},
                        [&](const SessionKey& at, auto, std::string_view value) {
                          EXPECT_EQ(at, key);
                          EXPECT_EQ(value, space);
                          return ++found > 0;
                        },
                        nullptr)
                    .ok());
    EXPECT_EQ(found, 1);
  }
  SessionChanges gone{.session = {.id = "s", .space = "a"},
                      .changes = {{.table = StoreTable::kSessions,
                                   .kind = StoreChange::Kind::kDeleteAll}}};
  ASSERT_TRUE(store->Commit({&gone, 1}, Sync::kYes).ok());
  EXPECT_EQ(*store->Get(StoreTable::kSessions, gone.session, ""), std::nullopt);
  EXPECT_EQ(Ids(*store, StoreTable::kSessions, {}).size(), 2u);
}

TEST_F(SessionStoreTest, DeletesWhatComesBeforeAName) {
  std::unique_ptr<SessionStore> store = Open();
  for (const char* id : {"a", "b"}) {
    for (uint64_t n = 1; n <= 4; ++n) {
      ASSERT_TRUE(
          CommitOwned(
              *store,
              {{.table = StoreTable::kJournal, .id = id, .name = JournalName(n)}},
              Sync::kNo)
              .ok());
    }
  }
  ASSERT_TRUE(CommitOwned(*store,
                          {{.table = StoreTable::kJournal,
                            .kind = StoreChange::Kind::kDeleteBefore,
                            .id = "b",
                            .name = JournalName(3)}},
                          Sync::kYes)
                  .ok());
  EXPECT_EQ(Ids(*store, StoreTable::kJournal, {}).size(), 6u);
  EXPECT_THAT(Ids(*store, StoreTable::kJournal, {.session = SessionKey{.id = "b"}}),
              ElementsAre("b:" + JournalName(3), "b:" + JournalName(4)));
}

// Snapshots that are equal share a file.
TEST_F(SessionStoreTest, KeepsSnapshotsAsLongAsTheyCount) {
  std::unique_ptr<SessionStore> store = Open();
  const std::string bytes = "state\0" + std::string(10'000, 's');
  const absl::StatusOr<std::string> name = store->PutSnapshot(bytes);
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(*store->PutSnapshot(bytes), *name);
  const std::string path = Path() + "/snapshots/" + *name;
  EXPECT_EQ(fs::file_size(path), bytes.size());
  EXPECT_EQ(fs::status(path).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  store->DropSnapshot(*name);
  EXPECT_EQ(*store->GetSnapshot(*name), bytes);

  std::ofstream(path, std::ios::binary) << "other bytes";
  EXPECT_EQ(ReasonOf(store->GetSnapshot(*name).status()), "SNAPSHOT_DAMAGED");
  EXPECT_EQ(*store->PutSnapshot(bytes), *name);
  EXPECT_EQ(*store->GetSnapshot(*name), bytes);
  store->DropSnapshot(*name);
  store->DropSnapshot(*name);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(ReasonOf(store->GetSnapshot(*name).status()), "SNAPSHOT_NOT_FOUND");
  EXPECT_EQ(ReasonOf(store->GetSnapshot("../FORMAT").status()), "SNAPSHOT_NOT_FOUND");

  const std::string first = *store->PutSnapshot("first");
  const std::string second = *store->PutSnapshot("second");
  store->CountSnapshots({second, "../FORMAT", ""}, /*remove_others=*/false);
  EXPECT_TRUE(store->GetSnapshot(first).ok());
  store->CountSnapshots({second}, /*remove_others=*/true);
  EXPECT_FALSE(store->GetSnapshot(first).ok());
  EXPECT_TRUE(store->GetSnapshot(second).ok());
  EXPECT_TRUE(fs::exists(Path() + "/FORMAT"));
}

TEST_F(SessionStoreTest, KeepsLargeValuesAndGivesTheirBytesBack) {
  std::unique_ptr<SessionStore> store = Open({.memory_bytes = 16 << 20});
  std::string blob(32 << 20, '\0');
  for (size_t i = 0; i < blob.size(); i += 512) blob[i] = static_cast<char>(i >> 9);
  const auto database_bytes = [&] {
    uintmax_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(Path() + "/db")) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  };
  for (int round = 0; round < 3; ++round) {
    blob[0] = static_cast<char>(round);
    ASSERT_TRUE(CommitOwned(*store,
                            {{.table = StoreTable::kCheckpoints,
                              .id = "a",
                              .name = "latest",
                              .value = blob}},
                            Sync::kYes)
                    .ok());
  }
  EXPECT_EQ(Read(*store, StoreTable::kCheckpoints, "a", "latest"), blob);
  ASSERT_TRUE(store->Compact().ok());
  EXPECT_EQ(Read(*store, StoreTable::kCheckpoints, "a", "latest"), blob);
  EXPECT_LT(database_bytes(), 2 * 2 * blob.size());
  store.reset();
  store = Open();
  EXPECT_EQ(Read(*store, StoreTable::kCheckpoints, "a", "latest"), blob);
}

TEST_F(SessionStoreTest, StaysWithinItsMemory) {
  std::unique_ptr<SessionStore> store = Open({.memory_bytes = 8 << 20});
  const std::string value(100'000, 'v');
  int64_t most = 0;
  for (int n = 0; n < 400; ++n) {
    ASSERT_TRUE(CommitOwned(*store,
                            {{.table = StoreTable::kCheckpoints,
                              .id = "s" + std::to_string(n % 50),
                              .name = "latest",
                              .value = value},
                             {.table = StoreTable::kJournal,
                              .id = "s",
                              .name = JournalName(static_cast<uint64_t>(n)),
                              .value = std::string(20'000, 'j')}},
                            Sync::kNo)
                    .ok());
    most = std::max(most, store->memory_bytes());
  }
  ASSERT_TRUE(ReadContents(*store).ok());
  EXPECT_LE(std::max(most, store->memory_bytes()), 8 << 20);
}

TEST_F(SessionStoreTest, HoldsAHundredThousandSnapshots) {
  const int snapshots = std::getenv("MNEMON_SANITIZED") == nullptr ? 100'000 : 10'000;
  constexpr int kTogether = 500;
  const SessionStoreOptions options = {.memory_bytes = 8 << 20};
  {
    std::unique_ptr<SessionStore> store = Open(options);
    for (int n = 0; n < snapshots; n += kTogether) {
      std::vector<OwnedChange> changes;
      for (int i = n; i < n + kTogether; ++i) {
        changes.push_back({.table = StoreTable::kCheckpoints,
                           .id = "s" + std::to_string(i),
                           .name = "latest",
                           .value = std::to_string(i) + std::string(1000, 'v')});
      }
      ASSERT_TRUE(CommitOwned(*store, changes, Sync::kNo).ok());
    }
    EXPECT_LE(store->memory_bytes(), options.memory_bytes);
  }
  std::unique_ptr<SessionStore> store = Open(options);
  int found = 0;
  ASSERT_TRUE(store
                  ->Scan(
                      StoreTable::kCheckpoints, {},
                      [&](const SessionKey&, std::string_view, std::string_view) {
                        ++found;
                        return true;
                      },
                      nullptr)
                  .ok());
  EXPECT_EQ(found, snapshots);
  for (int n = 0; n < snapshots; n += 997) {
    const std::string id = "s" + std::to_string(n);
    const auto value = store->Get(StoreTable::kCheckpoints, {.id = id}, "latest");
    ASSERT_TRUE(value.ok() && *value);
    ASSERT_TRUE((*value)->starts_with(std::to_string(n) + "v"));
  }
  EXPECT_LE(store->memory_bytes(), options.memory_bytes);
}

TEST_F(SessionStoreTest, ScansOneMomentAndMayBeCalledMeanwhile) {
  std::unique_ptr<SessionStore> store = Open();
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(PutRecord(*store, id, "1").ok());
  std::string seen;
  ASSERT_TRUE(
      store
          ->Scan(
              StoreTable::kSessions, {},
              [&](const SessionKey& key, std::string_view, std::string_view value) {
                EXPECT_TRUE(PutRecord(*store, "c", "2").ok());
                EXPECT_EQ(Read(*store, StoreTable::kSessions, "c"), "2");
                seen += std::string(key.id) + std::string(value);
                return true;
              },
              nullptr)
          .ok());
  EXPECT_EQ(seen, "a1b1c1");
  int count = 0;
  ASSERT_TRUE(store
                  ->Scan(
                      StoreTable::kSessions, {},
                      [&](auto&, auto, auto) { return ++count < 2; }, nullptr)
                  .ok());
  EXPECT_EQ(count, 2);
}

TEST_F(SessionStoreTest, IsPrivateWhateverTheUmask) {
  const mode_t before = ::umask(0);
  {
    std::unique_ptr<SessionStore> store = Open();
    ASSERT_TRUE(PutRecord(*store, "a", "").ok());
    ASSERT_TRUE(store->Compact().ok());
  }
  ::umask(before);
  int count = 0;
  struct stat found;
  for (const std::string& path : {Path(), Path() + "/db", Path() + "/db/a",
                                  Path() + "/db/b", Path() + "/snapshots"}) {
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u) << path;
  }
  for (const auto& entry : fs::recursive_directory_iterator(Path())) {
    if (!entry.is_regular_file()) continue;
    ASSERT_EQ(::stat(entry.path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600u) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 6);
}

TEST_F(SessionStoreTest, ClosesADirectoryThatIsOpenToOthers) {
  fs::create_directory(Path());
  ASSERT_EQ(::chmod(Path().c_str(), 0777), 0);
  Open().reset();
  struct stat found;
  ASSERT_EQ(::stat(Path().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(SessionStoreTest, StaysLockedWithoutItsLockFiles) {
  std::unique_ptr<SessionStore> store = Open();
  for (const char* name : {"/LOCK", "/db/a/LOCK", "/db/b/LOCK"}) {
    fs::remove(Path() + name);
  }
  EXPECT_EQ(ReasonOf(OpenSessionStore(Path()).status()), "STORE_IN_USE");
  store.reset();
  EXPECT_TRUE(OpenSessionStore(Path()).ok());
}

TEST_F(SessionStoreTest, RefusesASecondOwnerInThisProcess) {
  std::unique_ptr<SessionStore> store = Open();
  const absl::Status second = OpenSessionStore(Path()).status();
  EXPECT_EQ(ReasonOf(second), "STORE_IN_USE");
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("process " + std::to_string(::getpid())));
  ASSERT_TRUE(PutRecord(*store, "a", "").ok());
  store.reset();
  EXPECT_TRUE(OpenSessionStore(Path()).ok());
}

TEST_F(SessionStoreTest, OutlivesAKilledOwnerWithAllThatItHadSynced) {
  ChildProcess holder(root_, {MNEMON_STORE_HOLDER, Path()});
  const auto lines = [&] {
    const std::string out = holder.out();
    return std::count(out.begin(), out.end(), '\n');
  };
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (lines() < 20 && std::chrono::steady_clock::now() < deadline) {
    ASSERT_EQ(holder.Wait(std::chrono::milliseconds(1)), std::nullopt) << holder.err();
  }
  const absl::Status second = OpenSessionStore(Path()).status();
  EXPECT_EQ(ReasonOf(second), "STORE_IN_USE");
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("process " + std::to_string(holder.pid())));
  holder.Signal(SIGKILL);
  ASSERT_EQ(holder.Wait(), 128 + SIGKILL);

  // A number that another process has by now: what counts is the lock.
  std::ofstream(Path() + "/LOCK") << "1\n";
  auto store = OpenSessionStore(Path());
  ASSERT_TRUE(store.ok()) << store.status();
  const auto record = Read(**store, StoreTable::kSessions, "a");
  ASSERT_TRUE(record.has_value());
  EXPECT_GE(std::stol(record->substr(8)), lines());
}

// Killed while it opens, or soon after, again and again.
TEST_F(SessionStoreTest, DoesNotGrowInALoopOfCrashes) {
  const auto files = [&] {
    return std::distance(std::filesystem::recursive_directory_iterator(Path()), {});
  };
  {
    std::unique_ptr<SessionStore> store = Open({});
    for (int n = 1; n <= 100; ++n) {
      ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, 1000), Sync::kYes).ok());
    }
  }
  const auto before = files();
  for (int round = 0; round < 40; ++round) {
    ChildProcess holder(root_, {MNEMON_STORE_HOLDER, Path()});
    EXPECT_EQ(holder.Wait(std::chrono::milliseconds(5 * (round % 20))), std::nullopt)
        << holder.err();
    holder.Signal(SIGKILL);
    ASSERT_EQ(holder.Wait(), 128 + SIGKILL);
    ASSERT_LE(files(), before + 64) << "round " << round;
  }
  // What a crash while RocksDB writes its options leaves.
  std::ofstream(Path() + "/db/a/OPTIONS-000099.dbtmp") << "version";
  std::unique_ptr<SessionStore> store = Open({});
  EXPECT_LE(files(), before + 64);
  for (const auto& file : std::filesystem::directory_iterator(Path() + "/db/a")) {
    EXPECT_NE(file.path().extension(), ".dbtmp") << file.path();
  }
  auto contents = ReadContents(*store);
  ASSERT_TRUE(contents.ok()) << contents.status();
  contents->erase({StoreTable::kSessions, "a", ""});  // the holder's
  EXPECT_EQ(*contents, ScriptedContents(100, 1000).back());
}

TEST_F(SessionStoreTest, RefusesWhatIsNoStoreOrANewerOne) {
  fs::create_directory(Path("home"));
  std::ofstream(Path("home/letter")) << "x";
  const absl::Status foreign = OpenSessionStore(Path("home")).status();
  EXPECT_EQ(ReasonOf(foreign), "STORE_FORMAT");
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("letter"));
  EXPECT_FALSE(fs::exists(Path("home/LOCK")));
  EXPECT_NE(fs::status(Path("home")).permissions() & fs::perms::others_read,
            fs::perms::none);
  const absl::Status viewed = ViewSessionStore(Path("home")).status();
  EXPECT_EQ(ReasonOf(viewed), "STORE_FORMAT");
  EXPECT_THAT(std::string(viewed.message()), HasSubstr("has no FORMAT"));

  Open().reset();
  for (const char* text : {"", "something else\nversion 1\n", "mnemon session store\n",
                           "mnemon session store\nversion 1\nid 12\n",
                           "mnemon session store\nversion x\n"}) {
    std::ofstream(Path() + "/FORMAT") << text;
    std::ofstream(Path() + "/db/FORMAT") << text;
    EXPECT_EQ(ReasonOf(OpenSessionStore(Path()).status()), "STORE_FORMAT") << text;
  }
  std::ofstream(Path() + "/FORMAT")
      << "mnemon session store\nversion 3\nnew: yes\ncheck 4cd78c46590aa752\n";
  const absl::Status newer = OpenSessionStore(Path()).status();
  EXPECT_EQ(ReasonOf(newer), "STORE_FORMAT");
  EXPECT_THAT(std::string(newer.message()), HasSubstr("version 3"));
  EXPECT_THAT(std::string(newer.message()), HasSubstr("reads 2"));

  EXPECT_EQ(ReasonOf(OpenSessionStore(Path("no/such/parent")).status()),
            "STORE_FAILED");
  EXPECT_EQ(ReasonOf(OpenSessionStore("").status()), "STORE_FORMAT");
}

// A view of a store has links in place of its files.
TEST_F(SessionStoreTest, WritesInPlaceOfALinkNotThroughIt) {
  std::ofstream(Path("kept")) << "kept";
  fs::create_symlink(Path("kept"), Path("link"));
  const auto files = MakeStoreFileSystem(rocksdb::FileSystem::Default());
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_TRUE(files->NewWritableFile(Path("link"), {}, &file, nullptr).ok());
  ASSERT_TRUE(file->Append("new", {}, nullptr).ok());
  ASSERT_TRUE(file->Close({}, nullptr).ok());
  EXPECT_EQ(fs::file_size(Path("kept")), 4u);
  EXPECT_EQ(fs::file_size(Path("link")), 3u);
}

TEST_F(SessionStoreTest, FollowsALinkToItselfButNoneWithin) {
  fs::create_directory(Path("real"));
  fs::create_symlink(Path("real"), Path());
  ASSERT_TRUE(PutRecord(*Open(), "a", "1").ok());
  EXPECT_EQ(Read(*Open(), StoreTable::kSessions, "a"), "1");

  fs::copy_file(Path("real/db/a/CURRENT"), Path("elsewhere"));
  fs::remove(Path("real/db/a/CURRENT"));
  fs::create_symlink(Path("elsewhere"), Path("real/db/a/CURRENT"));
  EXPECT_EQ(ReasonOf(OpenSessionStore(Path()).status()), "STORE_FORMAT");
  fs::remove(Path("real/LOCK"));
  fs::create_symlink(Path("elsewhere"), Path("real/LOCK"));
  EXPECT_EQ(ReasonOf(OpenSessionStore(Path()).status()), "STORE_FORMAT");
}

}  // namespace
}  // namespace mnemon
