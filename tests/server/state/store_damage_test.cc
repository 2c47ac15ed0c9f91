// SPDX-License-Identifier: MIT
// The session store on files that were cut short or altered: what was not synced may be
// gone from the end, anything else is an error.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "server/state/write_ahead_log.h"
#include "tests/fakes/unsynced_file_system.h"
#include "tests/server/state/store_fixture.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int kCommits = 20;
constexpr int kSynced = 14;  // the first ones; not those behind them
constexpr size_t kSnapshotBytes = 300;

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class StoreDamage : public StoreFixture {
 protected:
  // Files after kCommits and a kill; all commits are in one log.
  void MakeLog() {
    auto files = std::make_shared<UnsyncedFileSystem>();
    auto store = *OpenSessionStoreOn(files, Path(), {});
    for (const auto& entry : fs::directory_iterator(Path() + "/db")) {
      if (entry.path().extension() == ".log")
        log_ = "db/" + entry.path().filename().string();
    }
    for (int n = 1; n <= kCommits; ++n) {
      const Sync sync = n <= kSynced ? Sync::kYes : Sync::kNo;
      ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, kSnapshotBytes), sync).ok());
      ends_.push_back(fs::file_size(Path() + "/" + log_));
    }
    fs::copy(Path(), Path("killed"), fs::copy_options::recursive);
    store.reset();
    bytes_ = ReadText(Path("killed/") + log_);
    ASSERT_EQ(bytes_.size(), ends_.back());
    const std::string format = ReadText(Path("killed/FORMAT"));
    const std::string hex = format.substr(format.find("id ") + 3, 32);
    for (size_t i = 0; i < hex.size(); i += 2) {
      id_.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
  }

  // Of the commits, those that end at or before `length`.
  int CommitsIn(size_t length) const {
    return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), length) -
                            ends_.begin());
  }

  // The log as MendLogs leaves it.
  absl::StatusOr<std::string> Mend(const std::string& log) const {
    const std::string path = Path("killed/") + log_;
    WriteText(path, log);
    UnsyncedFileSystem files;
    const absl::Status status = MendLogs(files, Path("killed/db"), id_);
    const std::string mended = ReadText(path);
    if (!status.ok()) {
      EXPECT_EQ(mended, log);
      return status;
    }
    return mended;
  }

  // Opens a copy of the files.
  absl::StatusOr<Contents> Open(const std::string& from = "killed") const {
    fs::remove_all(Path("copy"));
    fs::copy(Path(from), Path("copy"), fs::copy_options::recursive);
    absl::StatusOr<std::unique_ptr<SessionStore>> store =
        OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path("copy"), {});
    if (!store.ok()) return store.status();
    return ReadContents(**store);
  }

  std::string log_;  // its path in the store
  std::string id_;
  std::string bytes_;
  std::vector<size_t> ends_;  // of each commit
};

TEST_F(StoreDamage, KeepsWholeCommitsOfALogThatEndsAnywhere) {
  MakeLog();
  const std::vector<Contents> all = ScriptedContents(kCommits, kSnapshotBytes);
  for (size_t length = 0; length <= bytes_.size(); ++length) {
    const int whole = CommitsIn(length);
    const absl::StatusOr<std::string> mended = Mend(bytes_.substr(0, length));
    ASSERT_TRUE(mended.ok()) << mended.status() << " at " << length;
    ASSERT_EQ(*mended, bytes_.substr(0, whole == 0 ? 0 : ends_[whole - 1])) << length;
    if (length % 239 != 0) continue;
    const absl::StatusOr<Contents> contents = Open();
    ASSERT_TRUE(contents.ok()) << contents.status() << " at " << length;
    ASSERT_EQ(PrefixOf(*contents, all), whole) << length;
  }
}

TEST_F(StoreDamage, TellsAnAlteredByteFromATornTail) {
  MakeLog();
  const std::vector<Contents> all = ScriptedContents(kCommits, kSnapshotBytes);
  for (size_t at = 0; at < bytes_.size(); ++at) {
    const int before = CommitsIn(at);
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string altered = bytes_;
      altered[at] = static_cast<char>(altered[at] ^ flip);
      const absl::StatusOr<std::string> mended = Mend(altered);
      if (before < kSynced) {
        ASSERT_EQ(ReasonOf(mended.status()), "STORE_DAMAGED") << at << ' ' << flip;
        ASSERT_EQ(mended.status().code(), absl::StatusCode::kDataLoss);
      } else {
        ASSERT_TRUE(mended.ok()) << mended.status() << " at " << at;
        ASSERT_EQ(*mended, bytes_.substr(0, ends_[before - 1])) << at;
      }
    }
    if (at % 239 != 0) continue;
    std::string altered = bytes_;
    altered[at] = static_cast<char>(altered[at] ^ 0xff);
    WriteText(Path("killed/") + log_, altered);
    const absl::StatusOr<Contents> contents = Open();
    if (before < kSynced) {
      ASSERT_EQ(ReasonOf(contents.status()), "STORE_DAMAGED") << at;
    } else {
      ASSERT_EQ(PrefixOf(*contents, all), before) << at;
    }
  }
}

TEST_F(StoreDamage, ReportsZerosAmongWhatWasSynced) {
  MakeLog();
  for (int n = 0; n < kCommits; ++n) {
    std::string altered = bytes_;
    const size_t begin = n == 0 ? 0 : ends_[n - 1];
    std::fill(altered.begin() + begin, altered.begin() + ends_[n], '\0');
    EXPECT_EQ(Mend(altered).ok(), n >= kSynced) << n;
  }
}

// A log before the last one is whole: it was synced before that was made.
TEST_F(StoreDamage, ReportsATornLogBeforeTheLast) {
  MakeLog();
  WriteText(Path("killed/db/999999.log"), "");
  EXPECT_TRUE(Open().ok());
  WriteText(Path("killed/") + log_, bytes_.substr(0, bytes_.size() - 1));
  EXPECT_EQ(ReasonOf(Open().status()), "STORE_DAMAGED");
}

TEST_F(StoreDamage, ReportsALogThatIsMissing) {
  auto store = *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path(),
                                   {.memory_bytes = 64 << 20});
  ASSERT_TRUE(PutRecord(*store, "a", RecordExpiry(0)).ok());
  std::set<std::string> logs;
  for (int n = 1; n < 100 && logs.size() < 2; ++n) {
    ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(5 * n, 1'000'000), Sync::kYes).ok());
    logs.clear();
    for (const auto& entry : fs::directory_iterator(Path() + "/db")) {
      if (entry.path().extension() == ".log") logs.insert(entry.path().filename());
    }
  }
  ASSERT_EQ(logs.size(), 2u);
  ASSERT_TRUE(PutRecord(*store, "b", RecordExpiry(0)).ok());
  fs::copy(Path(), Path("killed"), fs::copy_options::recursive);
  store.reset();
  EXPECT_TRUE(Open().ok());
  fs::remove(Path("killed/db/") + *logs.begin());
  EXPECT_EQ(ReasonOf(Open().status()), "STORE_DAMAGED");
}

TEST_F(StoreDamage, DoesNotReplayACommitTwice) {
  MakeLog();
  for (const size_t bytes : {bytes_.size(), ends_[0]}) {
    WriteText(Path("killed/db/999999.log"), bytes_.substr(0, bytes));
    const absl::StatusOr<Contents> contents = Open();
    ASSERT_TRUE(contents.ok()) << contents.status();
    EXPECT_EQ(*contents, ScriptedContents(kCommits, kSnapshotBytes).back());
  }
}

// Any other file, whose bytes RocksDB guards: never other contents than those that were
// there.
TEST_F(StoreDamage, NeverShowsOtherContentsWhicheverFileIsAltered) {
  constexpr int kMore = 60;
  Contents expected = ScriptedContents(kMore, 6000).back();
  {
    auto store =
        *OpenSessionStoreOn(std::make_shared<UnsyncedFileSystem>(), Path(), {});
    for (int n = 1; n <= kMore; ++n) {
      ASSERT_TRUE(CommitOwned(*store, ScriptedCommit(n, 6000), Sync::kYes).ok());
      if (n == kMore / 2) {
        ASSERT_TRUE(store->Compact().ok());
      }
    }
    ASSERT_TRUE(store->Compact().ok());
  }
  int refused = 0, tried = 0;
  for (const auto& entry : fs::directory_iterator(Path() + "/db")) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file() || name == "LOCK" || name == "IDENTITY" ||
        name.substr(0, 7) == "OPTIONS") {
      continue;
    }
    const std::string bytes = ReadText(entry.path());
    const size_t parts = name.substr(0, 8) == "MANIFEST" ? 60 : 12;
    const size_t step = std::max<size_t>(1, bytes.size() / parts);
    for (size_t at = 0; at < bytes.size(); at += step) {
      std::string altered = bytes;
      altered[at] = static_cast<char>(altered[at] ^ 0x55);
      WriteText(entry.path(), altered);
      const absl::StatusOr<Contents> contents = Open("store");
      ++tried;
      if (contents.ok()) {
        EXPECT_EQ(*contents, expected)
            << name << " at " << at << " of " << bytes.size();
      } else {
        ++refused;
      }
    }
    WriteText(entry.path(), bytes);
  }
  EXPECT_GT(refused, tried / 2);
  EXPECT_TRUE(Open("store").ok());
}

TEST_F(StoreDamage, DoesNotCreateAStoreOverOneWithoutItsCurrent) {
  MakeLog();
  fs::remove(Path("killed/db/CURRENT"));
  const absl::StatusOr<Contents> contents = Open();
  EXPECT_EQ(ReasonOf(contents.status()), "STORE_DAMAGED");
}

}  // namespace
}  // namespace mnemon
