// SPDX-License-Identifier: MIT
// Reading of RocksDB's write-ahead logs before RocksDB does. Of its recovery modes none
// tells a tail that a power failure tore off from damage in the middle: the one that
// tolerates torn tails takes a record whose length was altered for such a tail, and
// steps over pages of zeros. This can, since each commit carries a mark: its number and
// that of the commit before it.
//
// Only the last log can be torn (StoreFileSystem). Commits behind a place that cannot
// be read show that it was damaged, unless they may be what a power failure has left of
// commits that were not synced: those have numbers above the last one known to be
// synced (SyncedNumber).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"

namespace mnemon {

// `id` (StoreDirectory::id), the commit's number and that of the commit before it. What
// others store cannot pass for one: they do not know the id.
std::string EncodeLogMark(std::string_view id, uint64_t before, uint64_t number);

// The number in the name of a log, "000012.log"; 0 for other names.
uint64_t LogNumber(std::string_view file_name);

// `database` is a folder where RocksDB is not running. All of these: UNAVAILABLE and
// RESOURCE_EXHAUSTED as StoreStatus has them.

// Where the logs begin.
struct LogStart {
  uint64_t sequence = 0;  // RocksDB's number of the first change
  uint64_t before = 0;    // the number of the commit before the first one: the tables
                          // have it, or one behind it
};

// Nullopt: there are no commits that can be read.
absl::StatusOr<std::optional<LogStart>> FindLogStart(rocksdb::FileSystem& files,
                                                     const std::string& database,
                                                     std::string_view id);

// OK when nothing is missing between the first commit of the logs and the last that is
// known to be synced, `synced`, as far as the logs show; else DATA_LOSS, STORE_DAMAGED.
// Changes nothing.
absl::Status CheckLogs(rocksdb::FileSystem& files, const std::string& database,
                       std::string_view id, uint64_t synced);

// Replaces the last log by its whole records up to the first place that cannot be read:
// afterwards it is durable.
absl::Status CutTornTail(rocksdb::FileSystem& files, const std::string& database);

// Replaces each log by all records of it that can be read. The number of places where
// commits are missing.
absl::StatusOr<int64_t> SalvageLogs(rocksdb::FileSystem& files,
                                    const std::string& database, std::string_view id);

}  // namespace mnemon
