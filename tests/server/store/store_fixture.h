// SPDX-License-Identifier: MIT
// A directory for a session store, and commits of a fixed script with the contents
// after the first n of them.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"
#include "server/store/session_store.h"
#include "tests/fakes/unsynced_file_system.h"

namespace mnemon {

class StoreFixture : public testing::Test {
 protected:
  StoreFixture() {
    // In memory if possible: thousands of files are made, and none is to last.
    const std::string memory = "/dev/shm";
    std::string pattern =
        (::access(memory.c_str(), W_OK) == 0 ? memory : testing::TempDir()) +
        "/mnemon-store-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~StoreFixture() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name = "store") const {
    return root_ + "/" + name;
  }

  static std::string ReasonOf(const absl::Status& status) {
    const std::optional<ErrorDetail> detail = GetErrorDetail(status);
    return detail ? detail->reason : status.ToString();
  }

  std::string root_;
};

// Owns the data of a StoreChange.
struct OwnedChange {
  StoreTable table = StoreTable::kSessions;
  StoreChange::Kind kind = StoreChange::Kind::kPut;
  std::string id = {};
  std::string name = {};
  std::string value = {};
};

inline absl::Status CommitOwned(SessionStore& store,
                                const std::vector<OwnedChange>& changes, Sync sync) {
  std::vector<SessionChanges> sessions;
  for (const OwnedChange& change : changes) {
    if (sessions.empty() || sessions.back().session.id != change.id) {
      sessions.push_back({.session = {.id = change.id}, .changes = {}});
    }
    sessions.back().changes.push_back(
        {change.table, change.kind, change.name, change.value});
  }
  const absl::Status status = store.Commit(sessions, sync);
  if (!status.ok()) return status;
  for (const SessionChanges& session : sessions) {
    if (!session.status.ok()) return session.status;
  }
  return status;
}

inline absl::Status PutRecord(SessionStore& store, const std::string& id,
                              const std::string& value, Sync sync = Sync::kYes) {
  return CommitOwned(
      store, {{.table = StoreTable::kSessions, .id = id, .value = value}}, sync);
}

using Contents =
    std::map<std::tuple<StoreTable, std::string, std::string>, std::string>;

inline absl::StatusOr<Contents> ReadContents(SessionStore& store) {
  Contents contents;
  for (const StoreTable table :
       {StoreTable::kSessions, StoreTable::kJournal, StoreTable::kCheckpoints}) {
    const absl::Status status = store.Scan(
        table, {},
        [&](const SessionKey& key, std::string_view name, std::string_view value) {
          contents[{table, std::string(key.id), std::string(name)}] = value;
          return true;
        },
        nullptr);
    if (!status.ok()) return status;
  }
  return contents;
}

// The n-th commit of the script, from 1. Four sessions whose journals grow and are
// deleted, and checkpoints that fill write buffers.
inline std::vector<OwnedChange> ScriptedCommit(int n, size_t snapshot_bytes) {
  const std::string id = "s" + std::to_string(n % 4);
  std::vector<OwnedChange> changes;
  if (n % 40 == 0) {
    changes.push_back({.table = StoreTable::kJournal,
                       .kind = StoreChange::Kind::kDeleteAll,
                       .id = id});
  }
  changes.push_back({.table = StoreTable::kJournal,
                     .id = id,
                     .name = JournalName(static_cast<uint64_t>(n)),
                     .value = "entry " + std::to_string(n) + std::string(50, 'e')});
  if (n % 5 == 0) {
    std::string blob(snapshot_bytes, '\0');
    uint64_t bits = static_cast<uint64_t>(n);
    for (char& byte : blob) {
      bits = bits * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<char>(bits >> 56);
    }
    changes.push_back({.table = StoreTable::kCheckpoints,
                       .id = id,
                       .name = "latest",
                       .value = std::move(blob)});
  }
  changes.push_back({.table = StoreTable::kSessions,
                     .id = id,
                     .value = RecordExpiry(0) + "record " + std::to_string(n)});
  return changes;
}

inline void Apply(const std::vector<OwnedChange>& changes, Contents& contents) {
  for (const OwnedChange& change : changes) {
    if (change.kind == StoreChange::Kind::kPut) {
      contents[{change.table, change.id, change.name}] = change.value;
    } else {
      std::erase_if(contents, [&](const auto& entry) {
        return std::get<0>(entry.first) == change.table &&
               std::get<1>(entry.first) == change.id &&
               (change.kind == StoreChange::Kind::kDeleteAll ||
                std::get<2>(entry.first) == change.name);
      });
    }
  }
}

// Contents after the first 0, 1, 2 ... `count` commits.
inline std::vector<Contents> ScriptedContents(int count, size_t snapshot_bytes) {
  std::vector<Contents> all(1);
  for (int n = 1; n <= count; ++n) {
    all.push_back(all.back());
    Apply(ScriptedCommit(n, snapshot_bytes), all.back());
  }
  return all;
}

// The folders of a store that hold files of a StoreCopy or snapshots.
inline constexpr const char* kStoreFolders[] = {"/db/a", "/db/b", "/snapshots"};

// Adopts the files of a store that existed before `files`.
inline void AdoptStore(UnsyncedFileSystem& files, const std::string& path) {
  for (const char* folder : kStoreFolders) {
    if (std::filesystem::exists(path + folder)) files.Adopt(path + folder);
  }
}

// Makes `to` what a power failure now would leave of the store at `path`; each folder
// is affected in its own way.
inline void CopyStoreAfterPowerFailure(const UnsyncedFileSystem& files,
                                       const std::string& path, PowerFailure failure,
                                       const std::string& to) {
  namespace fs = std::filesystem;
  auto way = static_cast<int>(failure);
  for (const char* folder : kStoreFolders) {
    fs::create_directories(to + folder);
    files.CopyAfterPowerFailure(path + folder, static_cast<PowerFailure>(way++ % 3),
                                to + folder);
  }
  fs::copy_file(path + "/FORMAT", to + "/FORMAT");
  // Not synced: it may exist or not.
  if (way % 2 == 0 && fs::exists(path + "/db/SYNCED")) {
    fs::copy_file(path + "/db/SYNCED", to + "/db/SYNCED");
  }
}

// Number of commits of the script in `contents`; -1 if it is not the result of a
// prefix.
inline int PrefixOf(const Contents& contents, const std::vector<Contents>& all) {
  for (size_t n = all.size(); n-- > 0;) {
    if (contents == all[n]) return static_cast<int>(n);
  }
  return -1;
}

}  // namespace mnemon
