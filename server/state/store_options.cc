// SPDX-License-Identifier: MIT
#include "server/state/store_options.h"

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
constexpr uint64_t kBlobFileBytes = uint64_t{64} << 20;
// A value below it costs less in a table than an entry of a blob file.
constexpr uint64_t kLeastBlobBytes = 4096;
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

rocksdb::ColumnFamilyOptions TableOptions(StoreTable table, int64_t buffers,
                                          const std::shared_ptr<rocksdb::Cache>& cache,
                                          std::shared_ptr<const LiveSessions> live) {
  rocksdb::BlockBasedTableOptions blocks;
  blocks.checksum = rocksdb::kXXH3;
  blocks.block_cache = cache;
  blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  blocks.format_version = 5;

  rocksdb::ColumnFamilyOptions made;
  made.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
  made.compaction_filter_factory = MakeDeadKeyFilters(table, std::move(live));
  made.periodic_compaction_seconds = kDaySeconds;
  made.write_buffer_size = static_cast<size_t>(buffers / 4);
  made.max_write_buffer_number = 2;
  made.target_file_size_base = uint64_t{16} << 20;
  made.max_bytes_for_level_base = uint64_t{64} << 20;
  made.level_compaction_dynamic_level_bytes = true;
  made.compression = table == StoreTable::kSnapshots ? rocksdb::kNoCompression
                                                     : rocksdb::kLZ4Compression;
  if (table == StoreTable::kSnapshots) {
    made.enable_blob_files = true;
    made.min_blob_size = kLeastBlobBytes;
    made.blob_file_size = kBlobFileBytes;
    made.enable_blob_garbage_collection = true;
    made.blob_garbage_collection_age_cutoff = 0.5;
    made.blob_garbage_collection_force_threshold = 0.5;
    made.prepopulate_blob_cache = rocksdb::PrepopulateBlobCache::kDisable;
  }
  return made;
}

}  // namespace

StoreDatabaseOptions MakeStoreOptions(const SessionStoreOptions& options,
                                      rocksdb::Env* environment,
                                      std::shared_ptr<rocksdb::EventListener> listener,
                                      std::shared_ptr<const LiveSessions> live) {
  const int64_t memory = std::max(options.memory_bytes, kLeastMemory);
  StoreDatabaseOptions made;
  made.cache = rocksdb::NewLRUCache(static_cast<size_t>(memory / 2));

  rocksdb::DBOptions& database = made.database;
  database.env = environment;
  database.create_missing_column_families = true;
  database.paranoid_checks = true;
  // MendLogs has left nothing to tolerate.
  database.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  database.track_and_verify_wals_in_manifest = true;
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

  made.tables.emplace_back(rocksdb::kDefaultColumnFamilyName,
                           rocksdb::ColumnFamilyOptions());
  const std::pair<StoreTable, const char*> names[] = {
      {StoreTable::kSessions, "sessions"},
      {StoreTable::kJournal, "journal"},
      {StoreTable::kSnapshots, "snapshots"}};
  for (const auto& [table, name] : names) {
    made.tables.emplace_back(name, TableOptions(table, memory / 2, made.cache, live));
  }
  return made;
}

}  // namespace mnemon
