// SPDX-License-Identifier: MIT
// Recover closes the database and opens it again instead of calling DB::Resume: what
// the disk has is read anew, and RocksDB writes all that it finds in its logs to new
// files, which it syncs. So nothing rests on pages whose fsync failed.
#include "server/state/rocksdb_store.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "server/state/dead_key_filter.h"
#include "server/state/store_directory.h"
#include "server/state/store_file_system.h"
#include "server/state/store_key.h"
#include "server/state/store_options.h"
#include "server/state/store_status.h"
#include "server/state/use_gate.h"
#include "server/state/write_ahead_log.h"

namespace mnemon {
namespace {

constexpr size_t kTables = 3;
// What Recover writes to see whether the disk takes data again.
constexpr size_t kProbeBytes = size_t{1} << 20;

rocksdb::Slice AsSlice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view AsView(const rocksdb::Slice& text) {
  return {text.data(), text.size()};
}

// The first failure since the last Clear. Safe for concurrent use.
class StoreHealth final : public rocksdb::EventListener {
 public:
  bool healthy() const { return healthy_; }
  absl::Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }
  void Fail(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = status;
    healthy_ = false;
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    status_ = absl::OkStatus();
    healthy_ = true;
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason,
                         rocksdb::Status* error) override {
    if (!error->ok()) Fail(StoreStatus(*error));
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason,
                            rocksdb::Status error, bool* recover) override {
    *recover = false;
  }

 private:
  mutable std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
  std::atomic<bool> healthy_ = true;
};

// An open database.
class Database {
 public:
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const StoreDirectory& directory, const std::shared_ptr<rocksdb::FileSystem>& base,
      const SessionStoreOptions& options, std::shared_ptr<StoreHealth> health,
      std::shared_ptr<const LiveSessions> live) {
    std::unique_ptr<Database> made(new Database(base));
    MNEMON_RETURN_IF_ERROR(MendLogs(*base, directory.database(), directory.id()));
    StoreDatabaseOptions chosen =
        MakeStoreOptions(options, made->environment_.get(), std::move(health), live);
    MNEMON_ASSIGN_OR_RETURN(chosen.database.create_if_missing,
                            IsUnused(*base, directory.database()));
    made->cache_ = chosen.cache;
    rocksdb::DB* database = nullptr;
    const rocksdb::Status status =
        rocksdb::DB::Open(chosen.database, directory.database(), chosen.tables,
                          &made->handles_, &database);
    made->database_.reset(database);
    if (!status.ok()) return StoreStatus(status);
    return made;
  }

  ~Database() {
    if (database_ == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      database_->DestroyColumnFamilyHandle(handle);
    }
    database_->Close().PermitUncheckedError();
  }

  rocksdb::DB& operator*() { return *database_; }
  rocksdb::DB* operator->() { return database_.get(); }
  rocksdb::ColumnFamilyHandle* table(StoreTable table) const {
    return handles_[1 + static_cast<size_t>(table)];
  }
  const std::vector<rocksdb::ColumnFamilyHandle*>& handles() const { return handles_; }
  const rocksdb::Cache& cache() const { return *cache_; }
  LogPosition durable() const { return files_->durable(); }

 private:
  explicit Database(std::shared_ptr<rocksdb::FileSystem> base)
      : files_(std::make_shared<StoreFileSystem>(std::move(base))),
        environment_(rocksdb::NewCompositeEnv(files_)) {}

  // Whether a database may be created: where files of one are without the file CURRENT,
  // an empty one would hide them.
  static absl::StatusOr<bool> IsUnused(rocksdb::FileSystem& files,
                                       const std::string& path) {
    std::vector<std::string> names;
    const rocksdb::IOStatus status =
        files.GetChildren(path, rocksdb::IOOptions(), &names, nullptr);
    if (!status.ok()) return StoreStatus(status);
    bool content = false;
    for (const std::string& name : names) {
      if (name == "CURRENT") return false;
      uint64_t bytes = 0;
      const std::string suffix = name.substr(std::min(name.rfind('.'), name.size()));
      if ((suffix == ".sst" || suffix == ".blob" || suffix == ".log") &&
          files.GetFileSize(path + "/" + name, rocksdb::IOOptions(), &bytes, nullptr)
              .ok() &&
          bytes > 0) {
        content = true;
      }
    }
    if (!content) return true;
    return StoreStatus(rocksdb::Status::Corruption("there is no file CURRENT"));
  }

  std::shared_ptr<StoreFileSystem> files_;  // shared with environment_
  std::unique_ptr<rocksdb::Env> environment_;
  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

class RocksdbStore final : public SessionStore {
 public:
  RocksdbStore(StoreDirectory directory, std::shared_ptr<rocksdb::FileSystem> base,
               const SessionStoreOptions& options)
      : directory_(std::move(directory)), base_(std::move(base)), options_(options) {}

  absl::Status Start() {
    MNEMON_ASSIGN_OR_RETURN(
        database_, Database::Open(directory_, base_, options_, health_, live_));
    return absl::OkStatus();
  }

  ~RocksdbStore() override {
    if (database_ != nullptr && healthy()) {
      StoreStatus((*database_)->SyncWAL()).IgnoreError();
    }
  }

  absl::Status Commit(std::span<const StoreChange> changes, Sync sync) override {
    return CatchOutOfMemory("a commit", [&]() -> absl::Status {
      MNEMON_RETURN_IF_ERROR(Check(changes));
      const UseGate::Use use(gate_);
      if (!healthy()) return health_->status();
      rocksdb::WriteBatch batch;
      rocksdb::Status status = FillBatch(changes, batch);
      if (!status.ok()) return StoreStatus(status);
      rocksdb::WriteOptions options;
      options.sync = sync == Sync::kYes;
      const absl::Status written = CatchOutOfMemory("a commit", [&] {
        return StoreStatus((*database_)->Write(options, &batch));
      });
      if (!written.ok()) health_->Fail(written);
      return written;
    });
  }

  absl::StatusOr<std::optional<std::string>> Get(StoreTable table, std::string_view id,
                                                 std::string_view name) override {
    using Result = absl::StatusOr<std::optional<std::string>>;
    return CatchOutOfMemory("a stored value", [&]() -> Result {
      MNEMON_RETURN_IF_ERROR(CheckStoreKey(table, id, name));
      const UseGate::Use use(gate_);
      if (database_ == nullptr) return health_->status();
      std::string value;
      const rocksdb::Status status =
          (*database_)
              ->Get(rocksdb::ReadOptions(), database_->table(table),
                    StoreKey(table, id, name), &value);
      if (status.IsNotFound()) return std::nullopt;
      if (!status.ok()) return StoreStatus(status);
      return value;
    });
  }

  absl::Status Scan(StoreTable table, const StoreRange& range,
                    const Visit& visit) override {
    return CatchOutOfMemory("a scan of the store", [&]() -> absl::Status {
      StoreKeySpan span;
      if (range.id.empty()) {
        span = {std::string(range.from), "\x7f"};  // behind every id
      } else {
        MNEMON_RETURN_IF_ERROR(CheckStoreId(range.id));
        span = StoreKeysOf(table, range.id);
        span.begin += range.from;
      }
      const UseGate::Use use(gate_);
      if (database_ == nullptr) return health_->status();
      const rocksdb::Slice end = span.end;
      rocksdb::ReadOptions options;
      options.iterate_upper_bound = &end;
      options.fill_cache = false;
      const std::unique_ptr<rocksdb::Iterator> at(
          (*database_)->NewIterator(options, database_->table(table)));
      for (at->Seek(span.begin); at->Valid(); at->Next()) {
        const std::optional<StoreKeyParts> parts =
            SplitStoreKey(table, AsView(at->key()));
        if (!parts) {
          return StoreStatus(rocksdb::Status::Corruption("a key is none of ours"));
        }
        if (!visit(parts->id, parts->name, AsView(at->value()))) break;
      }
      return StoreStatus(at->status());
    });
  }

  bool healthy() const override { return health_->healthy(); }

  absl::Status Recover() override {
    return CatchOutOfMemory("the session store", [&]() -> absl::Status {
      std::lock_guard lock(recovery_);
      if (healthy()) return absl::OkStatus();
      MNEMON_RETURN_IF_ERROR(ProbeDisk());
      const UseGate::Alone alone(gate_);
      database_.reset();
      health_->Clear();
      absl::Status status = Start();
      if (!status.ok()) health_->Fail(status);
      return status;
    });
  }

  void SetLive(std::function<bool(std::string_view id)> live) override {
    live_->Set(std::move(live));
  }

  absl::Status Compact() override {
    return CatchOutOfMemory("a compaction", [&]() -> absl::Status {
      const UseGate::Use use(gate_);
      if (!healthy()) return health_->status();
      rocksdb::CompactRangeOptions options;
      options.bottommost_level_compaction =
          rocksdb::BottommostLevelCompaction::kForceOptimized;
      options.blob_garbage_collection_policy =
          rocksdb::BlobGarbageCollectionPolicy::kForce;
      options.blob_garbage_collection_age_cutoff = 1.0;
      for (rocksdb::ColumnFamilyHandle* table : database_->handles()) {
        const rocksdb::Status status =
            (*database_)->CompactRange(options, table, nullptr, nullptr);
        if (!status.ok()) return StoreStatus(status);
      }
      return absl::OkStatus();
    });
  }

  int64_t memory_bytes() const override {
    const UseGate::Use use(gate_);
    if (database_ == nullptr) return 0;
    uint64_t total = database_->cache().GetUsage();
    for (const char* part :
         {"rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"}) {
      uint64_t bytes = 0;
      (*database_)->GetAggregatedIntProperty(part, &bytes);
      total += bytes;
    }
    return static_cast<int64_t>(total);
  }

 private:
  static absl::Status Check(std::span<const StoreChange> changes) {
    int64_t bytes = 0;
    for (const StoreChange& change : changes) {
      if (change.kind == StoreChange::Kind::kDeleteAll) {
        MNEMON_RETURN_IF_ERROR(CheckStoreId(change.id));
        if (!change.name.empty()) {
          return InvalidField("name", "all of a session's keys have no one name");
        }
      } else {
        MNEMON_RETURN_IF_ERROR(CheckStoreKey(change.table, change.id, change.name));
      }
      bytes += static_cast<int64_t>(change.id.size() + change.name.size() +
                                    change.value.size());
      if (bytes > kMaxCommitBytes) {
        return MakeError(absl::StatusCode::kResourceExhausted,
                         StrCat("a commit has more than the ", kMaxCommitBytes,
                                " bytes it may have"),
                         {.reason = "COMMIT_TOO_LARGE"});
      }
    }
    return absl::OkStatus();
  }

  rocksdb::Status FillBatch(std::span<const StoreChange> changes,
                            rocksdb::WriteBatch& batch) {
    rocksdb::Status status =
        batch.PutLogData(EncodeLogMark(directory_.id(), database_->durable()));
    for (const StoreChange& change : changes) {
      if (!status.ok()) return status;
      rocksdb::ColumnFamilyHandle* const table = database_->table(change.table);
      if (change.kind == StoreChange::Kind::kDeleteAll) {
        const StoreKeySpan span = StoreKeysOf(change.table, change.id);
        status = batch.DeleteRange(table, span.begin, span.end);
        continue;
      }
      const std::string key = StoreKey(change.table, change.id, change.name);
      status = change.kind == StoreChange::Kind::kPut
                   ? batch.Put(table, key, AsSlice(change.value))
                   : batch.Delete(table, key);
    }
    return status;
  }

  absl::Status ProbeDisk() {
    const rocksdb::IOOptions options;
    const std::string path = directory_.database() + "/probe.tmp";
    std::unique_ptr<rocksdb::FSWritableFile> file;
    rocksdb::IOStatus status =
        base_->NewWritableFile(path, rocksdb::FileOptions(), &file, nullptr);
    if (status.ok()) {
      status = file->Append(std::string(kProbeBytes, '\0'), options, nullptr);
    }
    if (status.ok()) status = file->Fsync(options, nullptr);
    if (file != nullptr) {
      const rocksdb::IOStatus closed = file->Close(options, nullptr);
      if (status.ok()) status = closed;
      const rocksdb::IOStatus deleted = base_->DeleteFile(path, options, nullptr);
      if (status.ok()) status = deleted;
    }
    return StoreStatus(status);
  }

  const StoreDirectory directory_;
  const std::shared_ptr<rocksdb::FileSystem> base_;
  const SessionStoreOptions options_;
  // Shared with the database.
  const std::shared_ptr<StoreHealth> health_ = std::make_shared<StoreHealth>();
  const std::shared_ptr<LiveSessions> live_ = std::make_shared<LiveSessions>();
  std::mutex recovery_;  // one Recover at a time
  mutable UseGate gate_;
  std::unique_ptr<Database> database_;  // replaced behind gate_ alone; null when
                                        // Recover could not open it
};

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStoreOn(
    std::shared_ptr<rocksdb::FileSystem> files, const std::string& directory,
    const SessionStoreOptions& options) {
  using Result = absl::StatusOr<std::unique_ptr<SessionStore>>;
  return CatchOutOfMemory("the session store", [&]() -> Result {
    MNEMON_ASSIGN_OR_RETURN(StoreDirectory owned, StoreDirectory::Open(directory));
    auto store = std::make_unique<RocksdbStore>(std::move(owned), files, options);
    if (absl::Status status = store->Start(); !status.ok()) {
      return Annotated(status, StrCat("cannot open ", Quoted(directory)));
    }
    return store;
  });
}

absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessionStore(
    const std::string& directory, const SessionStoreOptions& options) {
  return OpenSessionStoreOn(rocksdb::FileSystem::Default(), directory, options);
}

}  // namespace mnemon
