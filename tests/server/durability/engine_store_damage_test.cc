// SPDX-License-Identifier: MIT
// Sessions whose store was damaged, and stores of an older format: what is whole is
// served, what is missing is named, and what can be done about it is done by --repair.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>

#include "gmock/gmock.h"
#include "server/durability/store_survey.h"
#include "server/sessions/stored_session.h"
#include "server/store/session_store.h"
#include "server/store/store_directory.h"
#include "server/store_check.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/durability/stored_server.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr ToyState kState = ToyState::kFixedAndAppend;
constexpr int kSessions = 12;

class EngineStoreDamage : public StoreFixture {
 protected:
  static std::vector<int32_t> Turn(StoredServer& stored, const std::string& session,
                                   std::vector<int32_t> history, uint32_t seed,
                                   int32_t count = 30) {
    const std::vector<int32_t> prompt = Tokens(10, seed);
    const Outcome outcome = stored.server->Run(Ask(prompt, count, session));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    return Joined(Joined(std::move(history), prompt), outcome.tokens);
  }

  // kSessions sessions "s0" ... of some turns each, killed.
  void Make(bool in_tables = false) {
    StoredServer stored(Path(), kState);
    for (int n = 0; n < kSessions; ++n) {
      const std::string id = "s" + std::to_string(n);
      stored.CreateSession(id, n % 2 == 0 ? Durability::kTurn : Durability::kAlways);
      for (int turn = 0; turn < 3; ++turn) {
        histories_[id] = Turn(stored, id, histories_[id], 100u * turn + n);
      }
    }
    ASSERT_TRUE(stored.store->AwaitWhole(60));
    if (in_tables) {
      ASSERT_TRUE(stored.store->Compact().ok());
    }
    stored.CopyAfterKill(Path("killed"));
  }

  std::string Copy() const {
    fs::remove_all(Path("copy"));
    fs::copy(Path("killed"), Path("copy"), fs::copy_options::recursive);
    return Path("copy");
  }

  // Removes an entry of a session's journal from both copies of the store.
  static void RemoveEntry(const std::string& path, const std::string& id,
                          uint64_t sequence) {
    auto store = *OpenSessionStore(path);
    ASSERT_TRUE(CommitOwned(*store,
                            {{.table = StoreTable::kJournal,
                              .kind = StoreChange::Kind::kDelete,
                              .id = id,
                              .name = JournalName(sequence)}},
                            Sync::kYes)
                    .ok());
  }

  static std::vector<uint64_t> Entries(const std::string& path, const std::string& id) {
    auto store = *OpenSessionStore(path);
    std::vector<uint64_t> entries;
    EXPECT_TRUE(store
                    ->Scan(
                        StoreTable::kJournal, {.session = SessionKey{.id = id}},
                        [&](const SessionKey&, std::string_view name, auto) {
                          entries.push_back(*JournalSequence(name));
                          return true;
                        },
                        nullptr)
                    .ok());
    return entries;
  }

  // Whether all sessions but `but` are there, whole, and go on.
  void ExpectOthers(StoredServer& stored, const std::string& but) const {
    for (const auto& [id, history] : histories_) {
      if (id == but) continue;
      EXPECT_EQ(HistoryOf(stored.engine(), id), history) << id;
    }
  }

  std::map<std::string, std::vector<int32_t>> histories_;
};

TEST_F(EngineStoreDamage, NamesASessionAndTheTokensThatAreWhole) {
  Make();
  const std::vector<uint64_t> entries = Entries(Copy(), "s4");
  ASSERT_GT(entries.size(), 2u);
  for (const size_t gone : {size_t{0}, entries.size() / 2, entries.size() - 1}) {
    const std::string copy = Copy();
    RemoveEntry(copy, "s4", entries[gone]);
    StoredServer stored(copy, kState);
    EXPECT_EQ(stored.engine().recovery().sessions, kSessions - 1);
    EXPECT_EQ(stored.engine().recovery().damaged, 1);
    const absl::Status status = stored.engine().GetSession("s4").status();
    EXPECT_EQ(ReasonOf(status), "SESSION_DAMAGED") << status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    const int64_t whole =
        std::stoll(GetErrorDetail(status)->metadata.at("whole_tokens"));
    EXPECT_EQ(whole == 0, gone == 0);
    EXPECT_LT(whole, static_cast<int64_t>(histories_["s4"].size()));
    EXPECT_EQ(ReasonOf(stored.server->Run(Ask(Tokens(3, 1), 5, "s4")).status),
              "SESSION_DAMAGED");
    EXPECT_EQ(ReasonOf(stored.engine().CreateSession({.id = "s4"}).status()),
              "SESSION_DAMAGED");
    ExpectOthers(stored, "s4");
  }
}

TEST_F(EngineStoreDamage, KeepsASessionWithoutItsRecordUntilItIsDeleted) {
  Make();
  {
    auto store = *OpenSessionStore(Path("killed"));
    ASSERT_TRUE(CommitOwned(*store,
                            {{.table = StoreTable::kSessions,
                              .kind = StoreChange::Kind::kDelete,
                              .id = "s3"}},
                            Sync::kYes)
                    .ok());
  }
  const size_t entries = Entries(Path("killed"), "s3").size();
  ASSERT_GT(entries, 0u);
  {
    StoredServer stored(Path("killed"), kState);
    EXPECT_EQ(ReasonOf(stored.engine().GetSession("s3").status()), "SESSION_DAMAGED");
    ExpectOthers(stored, "s3");
  }
  EXPECT_EQ(Entries(Path("killed"), "s3").size(), entries);
  {
    StoredServer stored(Path("killed"), kState);
    EXPECT_TRUE(stored.engine().DeleteSession("s3").ok());
    EXPECT_EQ(ReasonOf(stored.engine().GetSession("s3").status()), "SESSION_NOT_FOUND");
    EXPECT_TRUE(stored.engine().CreateSession({.id = "s3"}).ok());
    ExpectOthers(stored, "s3");
  }
  EXPECT_TRUE(Entries(Path("killed"), "s3").empty());
}

TEST_F(EngineStoreDamage, IsToldByCheckAndMendedByRepair) {
  Make();
  testing::internal::CaptureStdout();
  EXPECT_TRUE(CheckStore(Path("killed")).ok());
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("sessions: 12, of them damaged: 0"));

  const std::vector<uint64_t> entries = Entries(Path("killed"), "s4");
  RemoveEntry(Path("killed"), "s4", entries[entries.size() / 2]);
  // One copy as well.
  fs::resize_file(Path("killed/db/b/CURRENT"), 3);
  const auto files = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(Path("killed"))) {
      if (!entry.is_regular_file()) continue;
      std::ifstream stream(entry.path(), std::ios::binary);
      files[entry.path()] = {std::istreambuf_iterator<char>(stream), {}};
    }
    return files;
  };
  const auto before = files();
  testing::internal::CaptureStdout();
  EXPECT_EQ(ReasonOf(CheckStore(Path("killed"))), "STORE_DAMAGED");
  const std::string told = testing::internal::GetCapturedStdout();
  EXPECT_THAT(told, HasSubstr("copy b: "));
  EXPECT_THAT(told, HasSubstr("session s4: damaged: entry "));
  EXPECT_EQ(files(), before) << "a check changes nothing";

  testing::internal::CaptureStdout();
  const absl::Status repaired = RepairStore(Path("killed"));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("session s4: cut to"));
  ASSERT_TRUE(repaired.ok()) << repaired;
  testing::internal::CaptureStdout();
  EXPECT_TRUE(CheckStore(Path("killed")).ok());
  testing::internal::GetCapturedStdout();
  StoredServer stored(Path("killed"), kState);
  const std::vector<int32_t> cut = HistoryOf(stored.engine(), "s4");
  EXPECT_LT(cut.size(), histories_["s4"].size());
  EXPECT_EQ(cut, std::vector<int32_t>(histories_["s4"].begin(),
                                      histories_["s4"].begin() +
                                          static_cast<std::ptrdiff_t>(cut.size())));
  const std::vector<int32_t> longer = Turn(stored, "s4", cut, 5);
  EXPECT_EQ(HistoryOf(stored.engine(), "s4"), longer);
  ExpectOthers(stored, "s4");
}

TEST_F(EngineStoreDamage, ARepairKeepsNoTokensThatARewindTookBack) {
  std::vector<int32_t> history;
  {
    StoredServer stored(Path(), kState);
    stored.CreateSession("a", Durability::kAlways);
    history = Turn(stored, "a", {}, 1);
    ASSERT_TRUE(
        RewindSession(stored.engine(), {.session = "a", .target = int64_t{5}}).ok());
    history.resize(5);
    // Shorter than it was before.
    for (const uint32_t seed : {2, 3}) history = Turn(stored, "a", history, seed, 3);
    ASSERT_TRUE(stored.store->AwaitWhole(60));
    stored.CopyAfterKill(Path("killed"));
  }
  RemoveEntry(Path("killed"), "a", Entries(Path("killed"), "a").back());
  testing::internal::CaptureStdout();
  const absl::Status repaired = RepairStore(Path("killed"));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("session a: cut to"));
  ASSERT_TRUE(repaired.ok()) << repaired;
  StoredServer stored(Path("killed"), kState);
  const std::vector<int32_t> cut = HistoryOf(stored.engine(), "a");
  EXPECT_GT(cut.size(), 5u);
  ASSERT_LT(cut.size(), history.size());
  history.resize(cut.size());
  EXPECT_EQ(cut, history);
}

// Where neither copy can be opened: RocksDB's lists are gone. They are made anew of the
// tables.
TEST_F(EngineStoreDamage, OfBothListsIsRepaired) {
  Make(/*in_tables=*/true);
  for (const char* which : {"/db/a", "/db/b"}) {
    for (const auto& entry : fs::directory_iterator(Path("killed") + which)) {
      if (entry.path().filename().string().starts_with("MANIFEST")) {
        fs::resize_file(entry.path(), 7);
      }
    }
  }
  EXPECT_EQ(ReasonOf(OpenSessionStore(Path("killed")).status()), "STORE_DAMAGED");
  testing::internal::CaptureStdout();
  const absl::Status repaired = RepairStore(Path("killed"));
  testing::internal::GetCapturedStdout();
  ASSERT_TRUE(repaired.ok()) << repaired;
  StoredServer stored(Path("killed"), kState);
  EXPECT_EQ(stored.engine().recovery().sessions, kSessions);
  ExpectOthers(stored, "");
}

// A journal is folded now and then: it stays in proportion to the history.
TEST_F(EngineStoreDamage, AJournalStaysInProportion) {
  std::vector<int32_t> history;
  {
    StoredServer stored(Path(), kState);
    stored.CreateSession("a", Durability::kTurn);
    for (uint32_t turn = 0; turn < 400; ++turn) {
      history = Turn(stored, "a", history, turn, 1);
      if (turn % 3 == 2) {
        history.resize(history.size() - 5);
        ASSERT_TRUE(RewindSession(stored.engine(),
                                  {.session = "a",
                                   .target = static_cast<int64_t>(history.size())})
                        .ok());
      }
      if (turn % 50 == 49) {
        ASSERT_TRUE(stored.engine().SaveSessions(std::chrono::steady_clock::now() +
                                                 std::chrono::seconds(60)));
      }
    }
  }
  EXPECT_LT(Entries(Path(), "a").size(), 500u);
  StoredServer stored(Path(), kState);
  EXPECT_EQ(HistoryOf(stored.engine(), "a"), history);
}

class StoreFormat1 : public EngineStoreDamage {
 protected:
  // The history of its session a.
  std::vector<int32_t> MakeOld() {
    fs::copy(MNEMON_STORE_FORMAT_1, Path(), fs::copy_options::recursive);
    fs::remove(Path() + "/README.md");
    fs::remove(Path() + "/history.txt");
    std::ifstream text(std::string(MNEMON_STORE_FORMAT_1) + "/history.txt");
    return {std::istream_iterator<int32_t>(text), {}};
  }
};

// A repair is for what is damaged: it is refused, and a start brings the store up.
TEST_F(StoreFormat1, IsNotRepaired) {
  MakeOld();
  EXPECT_EQ(ReasonOf(RepairStore(Path())), "STORE_FORMAT");
  EXPECT_TRUE(fs::exists(Path() + "/db/CURRENT"));
  EXPECT_EQ(ReasonOf(RepairStore(Path("none"))), "STORE_FORMAT");
  EXPECT_FALSE(fs::exists(Path("none")));
}

TEST_F(StoreFormat1, MayLosePowerWhileItIsUpgraded) {
  const std::vector<int32_t> a = MakeOld();
  ASSERT_TRUE(StoreDirectory::Open(Path()).ok());  // moves it to db/a
  const auto files = std::make_shared<UnsyncedFileSystem>();
  AdoptStore(*files, Path());
  std::mutex mutex;
  int copies = 0;  // guarded by mutex
  const auto fail = [&] {
    std::lock_guard lock(mutex);
    CopyStoreAfterPowerFailure(*files, Path(), static_cast<PowerFailure>(copies % 3),
                               Path("copy" + std::to_string(copies)));
    ++copies;
  };
  {
    auto store = *OpenSessionStoreOn(files, Path(), {});
    files->Observe(fail);
    ASSERT_TRUE(UpgradeStore(*store).ok());
    files->Observe(nullptr);
    for (int k = 0; k < 3; ++k) fail();
  }
  ASSERT_GT(copies, 8);
  for (int k = 0; k < copies; ++k) {
    StoredServer stored(Path("copy" + std::to_string(k)), kState);
    EXPECT_EQ(stored.engine().recovery().sessions, 3) << k;
    EXPECT_EQ(stored.engine().recovery().damaged, 0) << k;
    EXPECT_EQ(HistoryOf(stored.engine(), "a"), a) << k;
  }
}

TEST_F(StoreFormat1, OpensAsItIs) {
  const std::vector<int32_t> a = MakeOld();
  ASSERT_EQ(a.size(), 240u);
  for (int round = 0; round < 2; ++round) {
    StoredServer stored(Path(), kState);
    EXPECT_EQ(stored.engine().recovery().sessions, 3);
    EXPECT_EQ(stored.store->condition().lost_commits, 0);
    EXPECT_EQ(stored.store->condition().unreadable, 0);
    EXPECT_EQ(HistoryOf(stored.engine(), "a"), a);
    EXPECT_EQ(HistoryOf(stored.engine(), "b"),
              std::vector<int32_t>(a.begin(), a.begin() + 50));
    EXPECT_EQ(stored.engine().GetSession("empty")->durability, Durability::kAlways);
    if (round == 0) {
      // Its state is that of the old snapshot.
      const auto forked = ForkSession(stored.engine(), {.session = "a", .id = "f"});
      ASSERT_TRUE(forked.ok()) << forked.status();
      const Outcome outcome = stored.server->Run(Ask(Tokens(3, 77), 20, "f"));
      const Outcome expected = stored.server->Run(Ask(Joined(a, Tokens(3, 77)), 20));
      EXPECT_EQ(outcome.tokens, expected.tokens);
      ASSERT_TRUE(stored.engine().DeleteSession("f").ok());
    } else {
      const auto rewound =
          RewindSession(stored.engine(), {.session = "a", .target = std::string("p")});
      ASSERT_TRUE(rewound.ok()) << rewound.status();
      EXPECT_EQ(rewound->position, 120);
    }
    ASSERT_TRUE(stored.store->AwaitWhole(60));
  }
  fs::remove_all(Path() + "/db/a");
  StoredServer stored(Path(), kState);
  EXPECT_EQ(HistoryOf(stored.engine(), "a"),
            std::vector<int32_t>(a.begin(), a.begin() + 120));
}

}  // namespace
}  // namespace mnemon
