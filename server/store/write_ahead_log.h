// SPDX-License-Identifier: MIT
// Reading of RocksDB's write-ahead logs before RocksDB does. None of its recovery modes
// tells a tail that a power failure tore off from damage in the middle: the one that
// tolerates torn tails takes a record whose length was altered for such a tail, and
// steps over pages of zeros. Here each commit carries a mark, its number and that of
// the commit before it, which shows what is missing.
//
// Only the last log can be torn (StoreFileSystem). Commits after a place that cannot be
// read show damage, unless their numbers are above the last one known to be synced
// (SyncedNumber): a power failure may leave any part of commits that were not synced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/file_system.h"

namespace mnemon {

// A number of so many bytes, little endian.
uint64_t Little(const char* at, size_t bytes);
void PutLittle(std::string& to, uint64_t number, int bytes = 8);

// The mark of a commit: `id` (StoreDirectory::id), the number of the commit before it,
// its own, and a check. Stored values cannot imitate one: the id is secret.
std::string EncodeLogMark(std::string_view id, uint64_t before, uint64_t number);

// The number in the name of a log, "000012.log"; 0 for other files.
uint64_t LogNumber(std::string_view path);

// In what follows `database` is a folder where RocksDB is not running. An empty `id`
// stands for a store of format 1, whose marks are others and are not read. Errors:
// UNAVAILABLE and RESOURCE_EXHAUSTED of StoreStatus.

// Where the commits in logs begin.
struct LogStart {
  uint64_t sequence = 0;  // RocksDB's number of the first change
  uint64_t before = 0;    // the commit before: the tables have it, or a later one
};

// Where the logs begin; nullopt: no commit can be read. STORE_DAMAGED: a commit is
// missing, as far as the logs show, from their first one to `synced`, the last that is
// known to be synced. Changes nothing.
absl::StatusOr<std::optional<LogStart>> CheckLogs(rocksdb::FileSystem& files,
                                                  const std::string& database,
                                                  std::string_view id, uint64_t synced);

// Replaces the last log by its whole records before the first place that cannot be
// read, durably.
absl::Status CutTornTail(rocksdb::FileSystem& files, const std::string& database);

struct SalvagedLogs {
  std::optional<LogStart> start;  // as of CheckLogs
  int64_t gaps = 0;               // places where commits are missing
};
// Replaces each log by all its records that can be read.
absl::StatusOr<SalvagedLogs> SalvageLogs(rocksdb::FileSystem& files,
                                         const std::string& database,
                                         std::string_view id);

}  // namespace mnemon
