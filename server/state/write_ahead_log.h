// SPDX-License-Identifier: MIT
// Reading of RocksDB's write-ahead log before RocksDB does. Of its recovery modes none
// tells a tail that a power failure tore off from damage in the middle: the one that
// tolerates torn tails takes a record whose length was altered for such a tail, and
// steps over pages of zeros. This can, since commits carry marks.
//
// A mark says how many bytes of which log were durable when its commit was made. Only
// the last log can be torn (StoreFileSystem). Where its records end, what follows is
// what a power failure has left, unless a mark behind that place vouches for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/file_system.h"

namespace mnemon {

// The durable part of the log: all logs before `log`, and `bytes` of that one.
struct LogPosition {
  uint64_t log = 0;
  uint64_t bytes = 0;

  auto operator<=>(const LogPosition&) const = default;
};

// `id` (StoreDirectory::id) and the position. What others store cannot pass for one:
// they do not know the id.
std::string EncodeLogMark(std::string_view id, const LogPosition& durable);

// The number in the name of a log, "000012.log"; 0 for other names.
uint64_t LogNumber(std::string_view file_name);

// Checks all logs in `database`, where RocksDB is not running, and replaces the last
// one by its whole records, without a torn tail: afterwards it is durable. DATA_LOSS,
// with nothing changed, for any other damage; UNAVAILABLE and RESOURCE_EXHAUSTED as
// StoreStatus has them.
absl::Status MendLogs(rocksdb::FileSystem& files, const std::string& database,
                      std::string_view id);

}  // namespace mnemon
