// SPDX-License-Identifier: MIT
// One of the two copies of a session store: a RocksDB database that knows the number of
// its last commit, and what it lacks of what the other copy has.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "server/store/session_store.h"
#include "server/store/store_file_system.h"
#include "server/store/write_ahead_log.h"

namespace mnemon {

// The first failure of a copy's writes. Safe for concurrent use.
class StoreHealth final : public rocksdb::EventListener {
 public:
  bool healthy() const { return healthy_; }
  absl::Status status() const;
  void Fail(const absl::Status& status);

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason,
                            rocksdb::Status error, bool* recover) override;

 private:
  mutable std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
  std::atomic<bool> healthy_ = true;
};

// Safe for concurrent use, but for Write: one thread at a time.
class StoreCopy {
 public:
  struct Place {
    std::shared_ptr<rocksdb::FileSystem> files;
    std::string path;
    std::string id;  // StoreDirectory::id
    SessionStoreOptions options;
  };

  // What `place` has.
  enum class Content {
    kNone,     // no files, or none that a creation that was cut short cannot leave
    kUnknown,  // tables or logs without the file CURRENT
    kDatabase,
  };
  static absl::StatusOr<Content> Look(const Place& place);

  // Opens it; `create`: where there is none. `format_1`: it has the table
  // kSnapshotsOfFormat1. `salvaged`: its logs were. STORE_DAMAGED, and the other errors
  // of SessionStore.
  struct Mode {
    bool create = false;
    bool format_1 = false;
    bool salvaged = false;
  };
  static absl::StatusOr<std::unique_ptr<StoreCopy>> Open(const Place& place, Mode mode);
  // Removes all files of `place`, where no copy is open; makes its folder where there
  // is none.
  static absl::Status Wipe(const Place& place);

  ~StoreCopy();

  // The number of the newest commit in it; 0 in a new one, or one of format 1.
  uint64_t number() const { return number_; }
  // Whether the tables that were there before its logs were read have all commits that
  // come before those of the logs.
  bool HasBefore(const LogStart& start);
  enum class Extent {
    kWhole,   // it has every commit up to number()
    kBehind,  // of commits that were never acknowledged it may lack some
    kPart,    // it is being filled
  };
  Extent extent() const { return extent_; }
  // Durable on return.
  absl::Status SetExtent(Extent extent);

  // What a failed write leaves is not known: the copy is not healthy from then on, and
  // takes no more. Background errors end it likewise.
  bool healthy() const { return health_->healthy(); }
  absl::Status status() const { return health_->status(); }

  // The changes of the sessions whose status is OK, as commit `number`.
  absl::Status Write(std::span<const SessionChanges> sessions, uint64_t number,
                     Sync sync);
  // Changes of the filling, which belong to no commit.
  absl::Status Fill(rocksdb::WriteBatch& batch);
  absl::Status SyncLog();

  rocksdb::ColumnFamilyHandle* table(StoreTable table) const {
    return handles_[1 + static_cast<size_t>(table)];
  }
  rocksdb::Status Get(StoreTable table, const std::string& key, std::string& value);
  // From `begin` to before `end`, which outlives it.
  std::unique_ptr<rocksdb::Iterator> Iterate(StoreTable table,
                                             const rocksdb::Slice& end);

  absl::Status DropFormat1();
  absl::Status Compact();
  int64_t memory_bytes() const;

 private:
  explicit StoreCopy(const Place& place);
  absl::Status ReadFacts();
  absl::Status WriteFact(const std::string& key, const std::string& value);
  absl::Status Failed(const rocksdb::Status& status);

  const std::string id_;
  const std::shared_ptr<StoreHealth> health_ = std::make_shared<StoreHealth>();
  // Shared with environment_, which outlives the database.
  std::shared_ptr<StoreFileSystem> files_;
  std::unique_ptr<rocksdb::Env> environment_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::atomic<uint64_t> number_ = 0;
  std::atomic<Extent> extent_ = Extent::kWhole;
};

// Writes and removes a file there: OK where the disk takes data.
absl::Status ProbeDisk(const StoreCopy::Place& place);

}  // namespace mnemon
