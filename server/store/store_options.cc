// SPDX-License-Identifier: MIT
#include "server/store/store_options.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/table.h"

namespace mnemon {
namespace {

constexpr int64_t kLeastMemory = int64_t{4} << 20;
constexpr uint64_t kMaxManifestBytes = uint64_t{16} << 20;
constexpr uint64_t kDaySeconds = 86400;

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

StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      rocksdb::Env* environment,
                                      std::shared_ptr<rocksdb::EventListener> listener,
                                      bool format_1) {
  const int64_t memory = std::max(options.memory_bytes, kLeastMemory) / 2;
  StoreDatabaseOptions made;
  made.cache = rocksdb::NewLRUCache(static_cast<size_t>(memory / 2));

  rocksdb::DBOptions& database = made.database;
  database.env = environment;
  // Two copies of a store that is nearly empty would take megabytes.
  database.allow_fallocate = false;
  database.paranoid_checks = true;
  // What cannot be read was cut off, or taken out.
  database.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  database.track_and_verify_wals_in_manifest = true;
  // The number of the last commit is that of all tables.
  database.atomic_flush = true;
  // A failure is for SessionStore::Recover to end: data of a failed fsync is lost, and
  // another try that succeeds would hide it.
  database.max_bgerror_resume_count = 0;
  database.listeners.push_back(std::move(listener));
  database.db_write_buffer_size = static_cast<size_t>(memory / 2);
  database.max_total_wal_size = static_cast<uint64_t>(memory);
  database.max_open_files = options.max_open_files;
  database.max_background_jobs = 2;
  // By default each table starts 16 threads to open its few files.
  database.max_file_opening_threads = 1;
  database.max_manifest_file_size = kMaxManifestBytes;
  database.rate_limiter.reset(
      rocksdb::NewGenericRateLimiter(options.background_bytes_per_second));
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
