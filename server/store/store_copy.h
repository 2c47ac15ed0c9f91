// SPDX-License-Identifier: MIT
// One of the two copies of a session store: a RocksDB database that knows the number of
// its last commit, and what it lacks of the other copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "server/store/session_store.h"
#include "server/store/write_ahead_log.h"

namespace mnemon {

// Safe for concurrent use, except that Write is called by one thread at a time.
class StoreCopy {
 public:
  struct Place {
    std::shared_ptr<rocksdb::FileSystem> files;
    std::string path;
    std::string id;  // StoreDirectory::id
    SessionStoreOptions options;
  };

  // What is at a place.
  enum class Content {
    kNone,     // nothing but what an interrupted creation may leave
    kUnknown,  // tables or logs without the file CURRENT
    kDatabase,
  };
  static absl::StatusOr<Content> Look(const Place& place);

  // STORE_DAMAGED, and the other errors of SessionStore.
  struct Mode {
    bool create = false;    // there is no copy yet
    bool format_1 = false;  // it has the table kSnapshotsOfFormat1
    bool salvaged = false;  // SalvageLogs has changed its logs
  };
  static absl::StatusOr<std::unique_ptr<StoreCopy>> Open(const Place& place, Mode mode);
  // Removes all files of `place`, or creates its folder. REQUIRES: no copy is open.
  static absl::Status Wipe(const Place& place);

  ~StoreCopy();

  // The number of the newest commit in it; 0 in a new copy, or one of format 1.
  uint64_t number() const { return number_; }
  // Whether the tables that were there before the logs were read have every commit
  // before those of the logs.
  bool HasBefore(const LogStart& start);
  enum class Extent {
    kWhole,   // it has every commit up to number()
    kBehind,  // it may lack commits, none of which was acknowledged
    kPart,    // it is being filled
  };
  Extent extent() const { return extent_; }
  // Durable on return.
  absl::Status SetExtent(Extent extent);

  // The first failure of a write, or of RocksDB in the background. From then on the
  // copy takes no changes, since what the failed write has left is unknown.
  absl::Status status() const;

  // The changes of the sessions whose status is OK, as commit `number`.
  absl::Status Write(std::span<const SessionChanges> sessions, uint64_t number,
                     Sync sync);
  // Writes changes that belong to no commit, to fill the copy.
  absl::Status Fill(rocksdb::WriteBatch& batch);
  absl::Status SyncLog();

  rocksdb::ColumnFamilyHandle* table(StoreTable table) const {
    return handles_[1 + static_cast<size_t>(table)];
  }
  rocksdb::Status Get(StoreTable table, const std::string& key, std::string& value);
  // Over keys before `end`, which outlives the iterator.
  std::unique_ptr<rocksdb::Iterator> Iterate(StoreTable table,
                                             const rocksdb::Slice& end);

  absl::Status DropFormat1();
  absl::Status Compact();
  int64_t memory_bytes() const;

 private:
  class Health;

  explicit StoreCopy(std::string id);
  absl::Status ReadFacts();
  absl::Status Failed(const rocksdb::Status& status);

  const std::string id_;
  const std::shared_ptr<Health> health_;  // shared with database_
  std::unique_ptr<rocksdb::Env> environment_;
  std::shared_ptr<rocksdb::Cache> cache_;  // shared with database_
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::atomic<uint64_t> number_ = 0;
  std::atomic<Extent> extent_ = Extent::kWhole;
};

// Writes and removes a file there: OK where the disk takes bytes.
absl::Status ProbeDisk(const StoreCopy::Place& place);

}  // namespace mnemon
