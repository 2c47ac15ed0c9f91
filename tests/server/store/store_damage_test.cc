// SPDX-License-Identifier: MIT
// The session store on files that were altered, cut or removed: damage to one copy
// costs nothing; the same damage to both costs what it has hit, and that is told.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "server/store/write_ahead_log.h"
#include "tests/fakes/file_damage.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/store/store_fixture.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int kDamageCommits = 60;
constexpr size_t kBytes = 3000;

class StoreDamage : public StoreFixture {
 protected:
  // A store that was killed: tables, a log after them, snapshots.
  void Make(int commits = kDamageCommits) {
    auto store =
        *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path(), {});
    for (int n = 1; n <= commits; ++n) {
      ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kBytes), Sync::kYes).ok());
      if (n == kDamageCommits / 3) {
        ASSERT_TRUE(store->Compact().ok());
      }
    }
    ASSERT_TRUE(store->AwaitWhole(60));
    ASSERT_TRUE(store->PutSnapshot("a state").ok());
    fs::copy(Path(), Path("killed"), fs::copy_options::recursive);
    store.reset();
    all_ = ScriptedContents(commits, kBytes);
  }

  std::string FreshCopy() const {
    const std::string copy = Path("copy");
    fs::remove_all(copy);
    fs::copy(Path("killed"), copy, fs::copy_options::recursive);
    return copy;
  }

  std::vector<Contents> all_;
};

// Each file, each kind of damage, at several places.
TEST_F(StoreDamage, OfOneFileCostsNothing) {
  Make();
  const std::vector<fs::path> files = FilesIn(Path("killed"));
  ASSERT_GT(files.size(), 15u);
  const int places = std::getenv("MNEMON_SANITIZED") == nullptr ? 2 : 1;
  std::mt19937_64 random(1);
  int rebuilt = 0;
  for (const fs::path& file : files) {
    for (const FileDamage damage : kFileDamages) {
      for (int k = 0; k < (damage == FileDamage::kRemoval ? 1 : places); ++k) {
        const std::string copy = FreshCopy();
        const fs::path hurt = copy / fs::relative(file, Path("killed"));
        DamageFile(damage, hurt, random());
        const std::string what =
            hurt.string() + " damage " + std::to_string(static_cast<int>(damage));
        {
          auto store =
              OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
          ASSERT_TRUE(store.ok()) << store.status() << ' ' << what;
          const absl::StatusOr<Contents> contents = ReadContents(**store);
          ASSERT_TRUE(contents.ok()) << contents.status() << ' ' << what;
          ASSERT_EQ(PrefixOf(*contents, all_), kDamageCommits) << what;
          ASSERT_TRUE((*store)->AwaitWhole(60)) << what;
          EXPECT_EQ((*store)->condition().lost_commits, 0u) << what;
          EXPECT_EQ((*store)->condition().unreadable, 0) << what;
          rebuilt += static_cast<int>((*store)->condition().rebuilds);
        }
        // The one that was damaged is whole again: each of them serves alone.
        const fs::path other =
            hurt.string().find("/db/a/") != std::string::npos ? "/db/b" : "/db/a";
        fs::remove_all(copy + other.string());
        auto alone =
            OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
        ASSERT_TRUE(alone.ok()) << alone.status() << ' ' << what;
        ASSERT_EQ(PrefixOf(*ReadContents(**alone), all_), kDamageCommits) << what;
      }
    }
  }
  EXPECT_GT(rebuilt, 10);
}

// What is shown is what was there; what is missing is told.
TEST_F(StoreDamage, OfBothCopiesShowsNothingWrong) {
  Make();
  std::vector<fs::path> files = FilesIn(Path("killed/db/a"));
  const int places = std::getenv("MNEMON_SANITIZED") == nullptr ? 3 : 1;
  std::mt19937_64 random(2);
  int served = 0, refused = 0, less = 0;
  for (const fs::path& file : files) {
    for (const FileDamage damage : kFileDamages) {
      for (int k = 0; k < (damage == FileDamage::kRemoval ? 1 : places); ++k) {
        const std::string copy = FreshCopy();
        const uint64_t place = random();
        const std::string name = file.filename();
        for (const char* which : {"/db/a/", "/db/b/"}) {
          if (fs::exists(copy + which + name))
            DamageFile(damage, copy + which + name, place);
        }
        const std::string what =
            name + " damage " + std::to_string(static_cast<int>(damage));
        auto store =
            OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
        if (!store.ok()) {
          ++refused;
          EXPECT_EQ(ReasonOf(store.status()), "STORE_DAMAGED") << what;
          continue;
        }
        ++served;
        bool told = false;
        Contents contents;
        for (const StoreTable table :
             {StoreTable::kSessions, StoreTable::kJournal, StoreTable::kCheckpoints}) {
          ASSERT_TRUE(
              (*store)
                  ->Scan(
                      table, {},
                      [&](const SessionKey& key, std::string_view at,
                          std::string_view value) {
                        contents[{table, std::string(key.id), std::string(at)}] = value;
                        return true;
                      },
                      [&](const UnreadableRange&) { told = true; })
                  .ok())
              << what;
        }
        const StoreCondition condition = (*store)->condition();
        told = told || condition.lost_commits > 0 || condition.unreadable > 0;
        if (contents != all_.back()) {
          ++less;
          EXPECT_TRUE(told) << what;
        }
        for (const auto& [key, value] : contents) {
          const auto there = all_.back().find(key);
          if (there != all_.back().end() && there->second == value) continue;
          // Damage of an earlier commit: then commits are known to be lost.
          EXPECT_TRUE(told) << what;
          EXPECT_TRUE(std::any_of(all_.begin(), all_.end(), [&](const Contents& then) {
            const auto was = then.find(key);
            return was != then.end() && was->second == value;
          })) << what;
        }
      }
    }
  }
  EXPECT_GT(served, refused);
  EXPECT_GT(less, 5);
}

TEST_F(StoreDamage, OfACopyIsMendedWhileTheStoreIsUsed) {
  Make();
  const std::string copy = FreshCopy();
  for (const fs::path& file : FilesIn(copy + "/db/b")) fs::remove(file);
  auto store = *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
  int n = kDamageCommits + 1;
  const std::vector<Contents> more = ScriptedContents(kDamageCommits + 400, kBytes);
  for (; n <= kDamageCommits + 400; ++n) {
    ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kBytes),
                            n % 3 == 0 ? Sync::kYes : Sync::kNo)
                    .ok());
  }
  ASSERT_TRUE(store->AwaitWhole(60));
  EXPECT_EQ(store->condition().whole_copies, 2);
  EXPECT_EQ(store->condition().rebuilds, 1);
  store.reset();
  fs::remove_all(copy + "/db/a");
  store = *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
  EXPECT_EQ(PrefixOf(*ReadContents(*store), more), kDamageCommits + 400);
}

// The files that a kill would leave now: those that vanish meanwhile are left out.
void CopyAsKilled(const fs::path& from, const fs::path& to) {
  std::error_code vanished;
  fs::create_directories(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from, vanished)) {
    const fs::path target = to / entry.path().filename();
    if (entry.is_directory(vanished)) {
      CopyAsKilled(entry.path(), target);
    } else {
      fs::copy_file(entry.path(), target, vanished);
    }
  }
}

// Killed while a copy is made anew: it does not pass for a whole one.
TEST_F(StoreDamage, ACopyThatWasNotFilledDoesNotLead) {
  Make();
  const std::string copy = FreshCopy();
  fs::remove_all(copy + "/db/a");
  fs::create_directories(Path("cut"));
  {
    auto store = *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
    // Commits that come meanwhile give it the highest number.
    for (int k = 0; k < 3; ++k) {
      ASSERT_TRUE(PutRecord(*store, "s1", RecordExpiry(0) + "new").ok());
      fs::remove_all(Path("cut"));
      CopyAsKilled(copy, Path("cut"));
    }
  }
  auto store =
      OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path("cut"), {});
  ASSERT_TRUE(store.ok()) << store.status();
  const absl::StatusOr<Contents> contents = ReadContents(**store);
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(contents->size(), all_.back().size());
  EXPECT_EQ(contents->at({StoreTable::kSessions, "s1", ""}), RecordExpiry(0) + "new");
}

TEST_F(StoreDamage, BothCopiesGoneIsNoEmptyStore) {
  Make();
  const std::string copy = FreshCopy();
  fs::remove_all(copy + "/db/a");
  fs::remove_all(copy + "/db/b");
  const absl::Status status =
      OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {}).status();
  EXPECT_EQ(ReasonOf(status), "STORE_DAMAGED") << status;
  fs::remove(copy + "/db/SYNCED");
  fs::remove_all(copy + "/db");
  EXPECT_EQ(
      ReasonOf(OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {})
                   .status()),
      "STORE_DAMAGED");
}

// As a kill between the two writes of a commit leaves them: what the leader cannot read
// any more, the other one has.
TEST_F(StoreDamage, OfTheLeaderCostsNothingWhereTheOtherIsBehind) {
  Make();
  {
    auto store =
        *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path("killed"), {});
    ASSERT_TRUE(store->AwaitWhole(60));
    const auto save = [&](const char* name) {
      fs::copy(Path("killed") + "/db/" + name, Path(name), fs::copy_options::recursive);
    };
    save("b");
    save("SYNCED");
    ASSERT_TRUE(
        CommitOwned(*store, ScriptedCommit(kDamageCommits + 1, kBytes), Sync::kNo)
            .ok());
    fs::copy(Path("killed"), Path("ahead"), fs::copy_options::recursive);
  }
  for (const char* name : {"b", "SYNCED"}) {
    fs::remove_all(Path("ahead") + "/db/" + name);
    fs::copy(Path(name), Path("ahead") + "/db/" + name, fs::copy_options::recursive);
  }
  fs::remove_all(Path("killed"));
  fs::rename(Path("ahead"), Path("killed"));
  const Contents after = ScriptedContents(kDamageCommits + 1, kBytes).back();

  std::mt19937_64 random(3);
  int damaged = 0;
  for (const fs::path& file : FilesIn(Path("killed/db/a"))) {
    if (file.extension() != ".sst") continue;
    for (int k = 0; k < 12; ++k) {
      const std::string copy = FreshCopy();
      DamageFile(FileDamage::kZeros, copy / fs::relative(file, Path("killed")),
                 random());
      auto store = OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
      ASSERT_TRUE(store.ok()) << store.status();
      const absl::StatusOr<Contents> contents = ReadContents(**store);
      ASSERT_TRUE(contents.ok()) << contents.status();
      // All, a part or nothing of the last commit, which was never acknowledged.
      for (const auto& [key, value] : all_.back()) {
        ASSERT_TRUE(contents->contains(key));
        EXPECT_TRUE(contents->at(key) == value || contents->at(key) == after.at(key));
      }
      for (const auto& [key, value] : *contents) EXPECT_TRUE(after.contains(key));
      ASSERT_TRUE((*store)->AwaitWhole(60));
      EXPECT_EQ((*store)->condition().unreadable, 0);
      EXPECT_EQ((*store)->condition().lost_commits, 0u);
      if ((*store)->condition().rebuilds > 1) ++damaged;
      EXPECT_EQ(ReadContents(**store)->size(), contents->size());
    }
  }
  EXPECT_GT(damaged, 5);
}

// Killed while one that is behind is filled; then the other one is gone.
TEST_F(StoreDamage, OneThatIsBehindLeadsWhereThereIsNoOther) {
  Make();
  {
    const std::string copy = FreshCopy();
    fs::copy(copy + "/db/b", Path("b"), fs::copy_options::recursive);
    {
      auto store =
          *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
      ASSERT_TRUE(store->AwaitWhole(60));
      ASSERT_TRUE(
          CommitOwned(*store, ScriptedCommit(kDamageCommits + 1, kBytes), Sync::kYes)
              .ok());
    }
    fs::remove_all(copy + "/db/b");
    fs::remove(copy + "/db/SYNCED");
    fs::rename(Path("b"), copy + "/db/b");
    auto files = std::make_shared<UnsyncedFileSystem>();
    // Filling needs writes.
    std::unique_ptr<SessionStore> store = *OpenSessionStoreOn(files, copy, {});
    fs::remove_all(Path("cut"));
    std::error_code vanished;
    fs::copy(copy, Path("cut"), fs::copy_options::recursive, vanished);
  }
  // One that cannot be opened just now is there all the same.
  auto busy = std::make_shared<UnsyncedFileSystem>();
  busy->RefuseToOpen("/db/a/");
  EXPECT_EQ(ReasonOf(OpenSessionStoreOn(busy, Path("cut"), {}).status()),
            "STORE_FAILED");
  fs::remove_all(Path("cut") + "/db/a");
  auto store =
      OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path("cut"), {});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_GE(ReadContents(**store)->size(), all_.back().size());
  ASSERT_TRUE((*store)->AwaitWhole(60));
}

// What was gathered takes the place of both copies, wherever a repair was cut short.
TEST_F(StoreDamage, ARepairThatWasCutShortGoesOn) {
  Make();
  for (int steps = 0; steps < 3; ++steps) {
    const std::string copy = FreshCopy();
    fs::copy(copy + "/db/a", copy + "/db/repaired.whole");
    for (const char* which : {"/db/a", "/db/b"}) {
      for (const auto& entry : fs::directory_iterator(copy + which)) {
        if (entry.path().extension() == ".sst") fs::resize_file(entry.path(), 100);
      }
    }
    if (steps > 0) fs::rename(copy + "/db/a", copy + "/db/a.damaged");
    if (steps > 1) fs::rename(copy + "/db/b", copy + "/db/b.damaged");
    auto store = OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(PrefixOf(*ReadContents(**store), all_), kDamageCommits);
    EXPECT_TRUE((*store)->AwaitWhole(60));
    for (const char* left : {"a.damaged", "b.damaged"}) {
      EXPECT_TRUE(fs::exists(copy + "/db/" + left + "/CURRENT"));
    }
    EXPECT_FALSE(fs::exists(copy + "/db/repaired.whole"));
  }
}

// A folder in place of a file is set aside: its copy is damaged, and made anew.
TEST_F(StoreDamage, AFolderInPlaceOfAFileCostsNothing) {
  Make();
  for (const fs::path& file : FilesIn(Path("killed"))) {
    const std::string copy = FreshCopy();
    const fs::path hurt = copy / fs::relative(file, Path("killed"));
    if (hurt.parent_path().parent_path().filename() != "db") continue;
    fs::remove(hurt);
    fs::create_directory(hurt);
    std::ofstream(hurt / "letter") << "x";
    {
      auto store = OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), copy, {});
      ASSERT_TRUE(store.ok()) << store.status() << ' ' << hurt;
      EXPECT_EQ(PrefixOf(*ReadContents(**store), all_), kDamageCommits) << hurt;
      ASSERT_TRUE((*store)->AwaitWhole(60)) << hurt;
    }
    const std::string aside = hurt.parent_path().string() + ".damaged";
    EXPECT_TRUE(fs::exists(aside + "/letter")) << hurt;
  }
}

class LogDamage : public StoreDamage {
 protected:
  static constexpr int kRecords = 20;

  // One log with kRecords commits.
  void MakeLog() {
    auto store =
        *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path(), {});
    for (const fs::path& file : FilesIn(Path() + "/db/a")) {
      if (file.extension() == ".log") log_ = file;
    }
    ASSERT_TRUE(store->AwaitWhole(60));
    before_ = fs::file_size(log_);
    for (int n = 1; n <= kRecords; ++n) {
      ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kBytes), Sync::kYes).ok());
      ends_.push_back(fs::file_size(log_));
    }
    bytes_ = ReadText(log_);
    const std::string format = ReadText(Path() + "/FORMAT");
    const std::string hex = format.substr(format.find("id ") + 3, 32);
    for (size_t i = 0; i < hex.size(); i += 2) {
      id_.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    // The number of the last commit stands in its mark.
    fs::create_directories(Path("logs"));
    path_ = Path("logs") + "/" + log_.filename().string();
    ASSERT_TRUE(Check(bytes_, ~uint64_t{0}).ok());
    for (uint64_t number = 1; number < 100; ++number) {
      std::string without = bytes_.substr(0, ends_[kRecords - 2]);
      if (!Check(without + std::string(10, '\xff'), number).ok()) {
        last_ = number;
        break;
      }
    }
    ASSERT_GE(last_, uint64_t{kRecords});
  }

  absl::Status Check(const std::string& log, uint64_t synced) const {
    WriteText(path_, log);
    UnsyncedFileSystem files;
    return CheckLogs(files, Path("logs"), id_, synced).status();
  }

  fs::path log_;
  std::string path_;
  std::string id_, bytes_;
  size_t before_ = 0;
  std::vector<size_t> ends_;
  uint64_t last_ = 0;  // number of the last commit
};

TEST_F(LogDamage, IsCutToWholeCommitsWhereverItEnds) {
  MakeLog();
  UnsyncedFileSystem files;
  for (size_t length = before_; length <= bytes_.size(); length += 7) {
    WriteText(path_, bytes_.substr(0, length));
    ASSERT_TRUE(CutTornTail(files, Path("logs")).ok());
    const auto whole = std::upper_bound(ends_.begin(), ends_.end(), length);
    const size_t kept = whole == ends_.begin() ? before_ : *(whole - 1);
    const std::string left = ReadText(path_);
    ASSERT_EQ(left, bytes_.substr(0, left.size())) << length;
    ASSERT_EQ(left.size(), kept) << length;
  }
}

TEST_F(LogDamage, IsToldFromATornTailByWhatWasSynced) {
  MakeLog();
  for (size_t at = before_; at < bytes_.size(); at += 11) {
    std::string altered = bytes_;
    altered[at] = static_cast<char>(altered[at] ^ 0x80);
    const auto hit = static_cast<uint64_t>(
        std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
    const uint64_t number = last_ - kRecords + 1 + hit;  // of the commit that was hit
    EXPECT_EQ(ReasonOf(Check(altered, last_)), "STORE_DAMAGED") << at;
    EXPECT_EQ(ReasonOf(Check(altered, number)), "STORE_DAMAGED") << at;
    EXPECT_TRUE(Check(altered, number - 1).ok()) << at;
  }
}

TEST_F(LogDamage, CostsTheCommitThatItHits) {
  MakeLog();
  UnsyncedFileSystem files;
  for (size_t at = before_; at < bytes_.size(); at += 53) {
    std::string altered = bytes_;
    altered[at] = static_cast<char>(altered[at] ^ 0x80);
    WriteText(path_, altered);
    const absl::StatusOr<SalvagedLogs> logs = SalvageLogs(files, Path("logs"), id_);
    ASSERT_TRUE(logs.ok());
    ASSERT_EQ(logs->gaps, 1) << at;
    const auto hit = std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin();
    const size_t lost = ends_[hit] - (hit == 0 ? before_ : ends_[hit - 1]);
    // Records are cut into blocks anew: a header more or less for each.
    const size_t left = fs::file_size(path_);
    ASSERT_NEAR(static_cast<double>(left), static_cast<double>(bytes_.size() - lost),
                50.0)
        << at;
  }
}

}  // namespace
}  // namespace mnemon
