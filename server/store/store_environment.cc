// SPDX-License-Identifier: MIT
#include "server/store/store_environment.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/table.h"
#include "server/store/write_ahead_log.h"

namespace mnemon {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

constexpr int64_t kLeastMemory = int64_t{4} << 20;
constexpr int kMaxOpenFiles = 256;
// Flushes and compactions together.
constexpr int64_t kBackgroundBytesPerSecond = int64_t{128} << 20;
constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;
constexpr uint64_t kDaySeconds = 86400;

// RocksDB creates files as the umask has it. Those on a file system of a test may not
// exist here.
void MakePrivate(const std::string& path) { (void)::chmod(path.c_str(), 0600); }

class StoreFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit StoreFileSystem(std::shared_ptr<rocksdb::FileSystem> base)
      : FileSystemWrapper(std::move(base)) {}

  const char* Name() const override { return "mnemon"; }

  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* debug) override {
    const bool is_log = LogNumber(path) > 0;
    if (is_log) {
      if (IOStatus status = SyncLogs(path); !status.ok()) return status;
    }
    // In a view of a store files are links.
    std::error_code ignored;
    if (std::filesystem::is_symlink(path, ignored)) {
      std::filesystem::remove(path, ignored);
    }
    IOStatus status = FileSystemWrapper::NewWritableFile(path, options, result, debug);
    if (!status.ok()) return status;
    MakePrivate(path);
    if (is_log) *result = std::make_unique<LogFile>(*this, std::move(*result));
    return status;
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options,
                    rocksdb::FileLock** lock, IODebugContext* debug) override {
    IOStatus status = FileSystemWrapper::LockFile(path, options, lock, debug);
    if (status.ok()) MakePrivate(path);
    return status;
  }

 private:
  class LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    LogFile(StoreFileSystem& files, std::unique_ptr<rocksdb::FSWritableFile> file)
        : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {
      std::lock_guard lock(files_.mutex_);
      files_.logs_.insert(this);
    }
    ~LogFile() override {
      std::lock_guard lock(files_.mutex_);
      files_.logs_.erase(this);
    }

    IOStatus Append(const rocksdb::Slice& text, const IOOptions& options,
                    IODebugContext* debug) override {
      changed_ = true;
      return FSWritableFileOwnerWrapper::Append(text, options, debug);
    }
    IOStatus Append(const rocksdb::Slice& text, const IOOptions& options,
                    const rocksdb::DataVerificationInfo& verification,
                    IODebugContext* debug) override {
      changed_ = true;
      return FSWritableFileOwnerWrapper::Append(text, options, verification, debug);
    }

    // REQUIRES: files_.mutex_ is held.
    IOStatus SyncForNext() {
      if (!changed_.exchange(false)) return IOStatus::OK();
      return FSWritableFileOwnerWrapper::Sync({}, nullptr);
    }

   private:
    StoreFileSystem& files_;
    std::atomic<bool> changed_ = false;  // since it was made, or synced for a next one
  };

  IOStatus SyncLogs(const std::string& next) {
    std::lock_guard lock(mutex_);
    if (logs_.empty()) return IOStatus::OK();
    for (LogFile* log : logs_) {
      if (IOStatus status = log->SyncForNext(); !status.ok()) return status;
    }
    std::unique_ptr<rocksdb::FSDirectory> directory;
    IOStatus status = target()->NewDirectory(next.substr(0, next.rfind('/')), {},
                                             &directory, nullptr);
    return status.ok() ? directory->Fsync({}, nullptr) : status;
  }

  std::mutex mutex_;         // guards logs_; held while they are synced for a next one,
                             // so that none is closed meanwhile
  std::set<LogFile*> logs_;  // open
};

// Warnings and errors go to our log, instead of files that grow in the directory.
class StoreLogger final : public rocksdb::Logger {
 public:
  StoreLogger() : Logger(rocksdb::WARN_LEVEL) {}
  void Logv(const char* format, va_list arguments) override {
    char text[500];
    std::vsnprintf(text, sizeof text, format, arguments);
    try {
      LogEvent(LogLevel::kWarning, "store_database", {{"detail", std::string(text)}});
    } catch (const std::bad_alloc&) {
    }
  }
  using Logger::Logv;
};

rocksdb::ColumnFamilyOptions TableOptions(
    int64_t buffers, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.checksum = rocksdb::kXXH3;
  blocks.block_cache = cache;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  blocks.format_version = 5;

  rocksdb::ColumnFamilyOptions made;
  made.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  made.periodic_compaction_seconds = kDaySeconds;
  made.write_buffer_size = static_cast<size_t>(buffers / 4);
  made.max_write_buffer_number = 2;
  made.target_file_size_base = uint64_t{16} << 20;
  made.max_bytes_for_level_base = uint64_t{64} << 20;
  made.level_compaction_dynamic_level_bytes = true;
  made.compression = rocksdb::kLZ4Compression;
  return made;
}

}  // namespace

std::shared_ptr<rocksdb::FileSystem> MakeStoreFileSystem(
    std::shared_ptr<rocksdb::FileSystem> base) {
  return std::make_shared<StoreFileSystem>(std::move(base));
}

StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      std::shared_ptr<rocksdb::FileSystem> base,
                                      bool format_1) {
  const int64_t memory = std::max(options.memory_bytes, kLeastMemory) / 2;
  StoreDatabaseOptions made;
  made.environment = rocksdb::NewCompositeEnv(MakeStoreFileSystem(std::move(base)));
  made.cache = rocksdb::NewLRUCache(static_cast<size_t>(memory / 2));

  rocksdb::DBOptions& database = made.database;
  database.env = made.environment.get();
  // Two copies of a store that is nearly empty would take megabytes.
  database.allow_fallocate = false;
  database.paranoid_checks = true;
  // What cannot be read was cut off, or taken out.
  database.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  database.track_and_verify_wals_in_manifest = true;
  // The number of the last commit is the same for all tables.
  database.atomic_flush = true;
  // A failure is for SessionStore::Recover to end: data of a failed fsync is lost, and
  // another try that succeeds would hide it.
  database.max_bgerror_resume_count = 0;
  database.db_write_buffer_size = static_cast<size_t>(memory / 2);
  database.max_total_wal_size = static_cast<uint64_t>(memory);
  database.max_open_files = kMaxOpenFiles;
  database.max_background_jobs = 2;
  // By default each table starts 16 threads to open its few files.
  database.max_file_opening_threads = 1;
  database.max_manifest_file_size = kMaxManifestBytes;
  database.rate_limiter.reset(
      rocksdb::NewGenericRateLimiter(kBackgroundBytesPerSecond));
  database.bytes_per_sync = uint64_t{1} << 20;
  database.info_log = std::make_shared<StoreLogger>();
  database.stats_dump_period_sec = 0;
  database.stats_persist_period_sec = 0;

  std::vector<const char*> names = {"default", "sessions", "journal", "checkpoints"};
  if (format_1) names.push_back("snapshots");
  for (const char* name : names) {
    made.tables.emplace_back(name, TableOptions(memory / 2, made.cache));
  }
  return made;
}

}  // namespace mnemon
