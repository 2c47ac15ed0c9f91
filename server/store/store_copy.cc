// SPDX-License-Identifier: MIT
// A copy that has failed is opened anew instead of by DB::Resume: what the disk has is
// read again, and RocksDB writes all that it finds in its logs to new files, which it
// syncs. So nothing rests on pages whose fsync failed.
#include "server/store/store_copy.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "rocksdb/listener.h"
#include "rocksdb/sst_file_reader.h"
#include "server/store/store_environment.h"
#include "server/store/store_key.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

// Keys of RocksDB's own table.
constexpr char kNumberKey[] = "number";
constexpr char kFillingKey[] = "filling";  // where it is not whole
constexpr char kBehindValue[] = "behind";  // else it is a part
constexpr char kFormat1Table[] = "snapshots";
constexpr size_t kProbeBytes = size_t{1} << 20;

uint64_t NumberOf(std::string_view text) {
  return Little(text.data(), std::min<size_t>(text.size(), 8));
}

// OK when `names`, the database's list of its tables, has all of them: after a cut in
// that list the database would be opened without the others, and without their part of
// the log.
absl::Status FindTables(const std::string& path, const StoreDatabaseOptions& options,
                        const StoreCopy::Mode& mode, std::vector<std::string>& names) {
  const rocksdb::Status listed =
      rocksdb::DB::ListColumnFamilies(options.database, path, &names);
  const bool all =
      std::all_of(options.tables.begin(), options.tables.end(), [&](const auto& table) {
        return (mode.format_1 && table.name == "checkpoints") ||
               std::find(names.begin(), names.end(), table.name) != names.end();
      });
  if (listed.ok() && all) return absl::OkStatus();
  if (listed.IsIOError() && !listed.IsPathNotFound()) return StoreStatus(listed);
  return StoreStatus(rocksdb::Status::Corruption("its list of tables is damaged"));
}

}  // namespace

class StoreCopy::Health final : public rocksdb::EventListener {
 public:
  absl::Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }
  void Fail(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    status_.Update(status);
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
  absl::Status status_;  // the first failure; guarded by mutex_
};

StoreCopy::StoreCopy(std::string id)
    : id_(std::move(id)), health_(std::make_shared<Health>()) {}

StoreCopy::~StoreCopy() {
  if (database_ == nullptr) return;
  if (status().ok()) database_->SyncWAL().PermitUncheckedError();
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    database_->DestroyColumnFamilyHandle(handle);
  }
  database_->Close().PermitUncheckedError();
}

absl::Status StoreCopy::status() const { return health_->status(); }

absl::StatusOr<StoreCopy::Content> StoreCopy::Look(const Place& place) {
  std::vector<std::string> names;
  const rocksdb::IOStatus status =
      place.files->GetChildren(place.path, rocksdb::IOOptions(), &names, nullptr);
  if (status.IsNotFound() || status.IsPathNotFound()) return Content::kNone;
  if (!status.ok()) return StoreStatus(status);
  Content content = Content::kNone;
  for (const std::string& name : names) {
    if (name == "CURRENT") return Content::kDatabase;
    uint64_t bytes = 0;
    const std::string suffix = name.substr(std::min(name.rfind('.'), name.size()));
    if ((suffix == ".sst" || suffix == ".blob" || suffix == ".log") &&
        place.files
            ->GetFileSize(place.path + "/" + name, rocksdb::IOOptions(), &bytes,
                          nullptr)
            .ok() &&
        bytes > 0) {
      content = Content::kUnknown;
    }
  }
  return content;
}

absl::StatusOr<std::unique_ptr<StoreCopy>> StoreCopy::Open(const Place& place,
                                                           Mode mode) {
  std::unique_ptr<StoreCopy> made(new StoreCopy(place.id));
  StoreDatabaseOptions chosen =
      MakeStoreOptions(place.options, place.files, mode.format_1);
  std::vector<std::string> names;
  if (!mode.create) {
    MNEMON_RETURN_IF_ERROR(FindTables(place.path, chosen, mode, names));
  }
  // An upgrade was cut short before its end.
  const bool drop = !mode.format_1 &&
                    std::find(names.begin(), names.end(), kFormat1Table) != names.end();
  if (drop) {
    chosen = MakeStoreOptions(place.options, place.files, /*format_1=*/true);
  }
  chosen.database.listeners.push_back(made->health_);
  chosen.database.create_if_missing = mode.create;
  // Older stores of format 1 have none for checkpoints.
  chosen.database.create_missing_column_families = mode.create || mode.format_1;
  if (mode.salvaged) chosen.database.track_and_verify_wals_in_manifest = false;
  made->environment_ = std::move(chosen.environment);
  made->cache_ = chosen.cache;
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(
      chosen.database, place.path, chosen.tables, &made->handles_, &database);
  made->database_.reset(database);
  if (status.IsInvalidArgument() || status.IsPathNotFound() || status.IsNotFound()) {
    // Tables or files that its own lists do not have, or lists that are not there.
    StoreStatus(status).IgnoreError();
    return StoreStatus(rocksdb::Status::Corruption("it is not as it was made"));
  }
  if (!status.ok()) return StoreStatus(status);
  MNEMON_RETURN_IF_ERROR(made->ReadFacts());
  if (drop) MNEMON_RETURN_IF_ERROR(made->DropFormat1());
  return made;
}

absl::Status StoreCopy::Wipe(const Place& place) {
  std::vector<std::string> names;
  rocksdb::IOStatus status = place.files->GetChildren(place.path, {}, &names, nullptr);
  if (status.IsNotFound() || status.IsPathNotFound()) {
    status = place.files->CreateDirIfMissing(place.path, {}, nullptr);
  }
  if (!status.ok()) return StoreStatus(status);
  // First what makes it a database: one that is removed in part is none.
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "CURRENT"; });
  for (const std::string& name : names) {
    if (name == "." || name == "..") continue;
    status = place.files->DeleteFile(place.path + "/" + name, {}, nullptr);
    if (!status.ok() && !status.IsNotFound() && !status.IsPathNotFound()) {
      return StoreStatus(status);
    }
  }
  return absl::OkStatus();
}

absl::Status StoreCopy::ReadFacts() {
  std::string value;
  rocksdb::Status status =
      database_->Get(rocksdb::ReadOptions(), handles_[0], kNumberKey, &value);
  if (status.ok()) number_ = NumberOf(value);
  if (status.ok() || status.IsNotFound()) {
    status = database_->Get(rocksdb::ReadOptions(), handles_[0], kFillingKey, &value);
    extent_ = status.IsNotFound()     ? Extent::kWhole
              : value == kBehindValue ? Extent::kBehind
                                      : Extent::kPart;
  }
  return status.IsNotFound() ? absl::OkStatus() : StoreStatus(status);
}

bool StoreCopy::HasBefore(const LogStart& start) {
  if (start.before == 0) return true;
  std::vector<rocksdb::LiveFileMetaData> tables;
  database_->GetLiveFilesMetaData(&tables);
  rocksdb::Options options;
  options.env = environment_.get();
  for (const rocksdb::LiveFileMetaData& table : tables) {
    if (table.column_family_name != rocksdb::kDefaultColumnFamilyName ||
        table.largest_seqno >= start.sequence) {
      continue;
    }
    rocksdb::SstFileReader reader(options);
    if (!reader.Open(table.db_path + table.name).ok()) continue;
    const std::unique_ptr<rocksdb::Iterator> at(
        reader.NewIterator(rocksdb::ReadOptions()));
    at->Seek(kNumberKey);
    if (at->Valid() && at->key() == kNumberKey &&
        NumberOf(at->value().ToStringView()) >= start.before) {
      return true;
    }
  }
  return false;
}

absl::Status StoreCopy::Failed(const rocksdb::Status& status) {
  const absl::Status failed = StoreStatus(status);
  if (!failed.ok()) health_->Fail(failed);
  return failed;
}

absl::Status StoreCopy::SetExtent(Extent extent) {
  MNEMON_RETURN_IF_ERROR(status());
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status =
      extent == Extent::kWhole
          ? database_->Delete(options, handles_[0], kFillingKey)
          : database_->Put(options, handles_[0], kFillingKey,
                           extent == Extent::kBehind ? kBehindValue : "");
  if (status.ok()) extent_ = extent;
  return Failed(status);
}

absl::Status StoreCopy::Write(std::span<const SessionChanges> sessions, uint64_t number,
                              Sync sync) {
  MNEMON_RETURN_IF_ERROR(status());
  const absl::Status outcome = CatchOutOfMemory("a commit", [&]() -> absl::Status {
    rocksdb::WriteBatch batch;
    rocksdb::Status status = batch.PutLogData(EncodeLogMark(id_, number_, number));
    std::string text;
    PutLittle(text, number);
    if (status.ok()) status = batch.Put(handles_[0], kNumberKey, text);
    for (const SessionChanges& session : sessions) {
      if (!session.status.ok()) continue;
      for (const StoreChange& change : session.changes) {
        if (!status.ok()) return StoreStatus(status);
        rocksdb::ColumnFamilyHandle* const to = table(change.table);
        const bool all = change.kind == StoreChange::Kind::kDeleteAll;
        const std::string key = StoreKey(change.table, session.session, change.name);
        if (all || change.kind == StoreChange::Kind::kDeleteBefore) {
          const StoreKeySpan span = StoreKeysOf(change.table, session.session);
          status = batch.DeleteRange(to, span.begin, all ? span.end : key);
        } else if (change.kind == StoreChange::Kind::kPut) {
          status = batch.Put(to, key, change.value);
        } else {
          status = batch.Delete(to, key);
        }
      }
    }
    if (!status.ok()) return StoreStatus(status);
    rocksdb::WriteOptions options;
    options.sync = sync == Sync::kYes;
    return StoreStatus(database_->Write(options, &batch));
  });
  if (outcome.ok()) {
    number_ = number;
  } else {
    health_->Fail(outcome);
  }
  return outcome;
}

absl::Status StoreCopy::Fill(rocksdb::WriteBatch& batch) {
  MNEMON_RETURN_IF_ERROR(status());
  return Failed(database_->Write(rocksdb::WriteOptions(), &batch));
}

absl::Status StoreCopy::SyncLog() {
  MNEMON_RETURN_IF_ERROR(status());
  return Failed(database_->SyncWAL());
}

rocksdb::Status StoreCopy::Get(StoreTable table, const std::string& key,
                               std::string& value) {
  return database_->Get(rocksdb::ReadOptions(), this->table(table), key, &value);
}

std::unique_ptr<rocksdb::Iterator> StoreCopy::Iterate(StoreTable table,
                                                      const rocksdb::Slice& end) {
  rocksdb::ReadOptions options;
  options.iterate_upper_bound = &end;
  options.fill_cache = false;
  return std::unique_ptr<rocksdb::Iterator>(
      database_->NewIterator(options, this->table(table)));
}

absl::Status StoreCopy::DropFormat1() {
  rocksdb::ColumnFamilyHandle* const handle = handles_.back();
  if (handle->GetName() != kFormat1Table) return absl::OkStatus();  // it was dropped
  const rocksdb::Status status = database_->DropColumnFamily(handle);
  if (!status.ok()) return Failed(status);
  handles_.pop_back();
  return Failed(database_->DestroyColumnFamilyHandle(handle));
}

absl::Status StoreCopy::Compact() {
  MNEMON_RETURN_IF_ERROR(status());
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction =
      rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (rocksdb::ColumnFamilyHandle* table : handles_) {
    const rocksdb::Status status =
        database_->CompactRange(options, table, nullptr, nullptr);
    if (!status.ok()) return StoreStatus(status);
  }
  return absl::OkStatus();
}

int64_t StoreCopy::memory_bytes() const {
  uint64_t total = cache_->GetUsage();
  for (const char* part :
       {"rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-table-readers-mem"}) {
    uint64_t bytes = 0;
    database_->GetAggregatedIntProperty(part, &bytes);
    total += bytes;
  }
  return static_cast<int64_t>(total);
}

absl::Status ProbeDisk(const StoreCopy::Place& place) {
  const std::string path = place.path + "/probe.tmp";
  rocksdb::IOStatus status = rocksdb::WriteStringToFile(
      place.files.get(), std::string(kProbeBytes, '\0'), path, /*should_sync=*/true);
  if (status.ok()) status = place.files->DeleteFile(path, {}, nullptr);
  return StoreStatus(status);
}

}  // namespace mnemon
