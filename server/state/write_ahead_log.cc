// SPDX-License-Identifier: MIT
// The format is that of RocksDB's log_format.h: blocks of 32 KiB, filled with
// fragments, each a checksum (masked CRC-32C of what follows the length), a length (16
// bits, little endian) and a type (full, first, middle, last) before its bytes. Less
// than a header's room at the end of a block is zero. Options that write other types
// are off.
#include "server/state/write_ahead_log.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/state/store_status.h"

namespace mnemon {
namespace {

constexpr size_t kBlock = 32768;
constexpr size_t kHeader = 7;
constexpr size_t kBatchHeader = 12;  // of a record: a sequence number, a count
constexpr size_t kIdBytes = 16;
constexpr size_t kMarkBytes = kIdBytes + 3 * 8;
enum LogFragment : unsigned char { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t crc = tables[k - 1][byte];
      tables[k][byte] = crc >> 8 ^ tables[0][crc & 255];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = MakeCrcTables();

uint64_t Little(const char* at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(at[i]);
  }
  return number;
}

uint32_t MaskedCrc(std::string_view text) {
  uint32_t crc = ~0u;
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = Little(at, 8) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kCrcTables[7 - k][word >> (8 * k) & 255];
  }
  for (; left > 0; ++at, --left) {
    crc = crc >> 8 ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(*at)) & 255];
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void PutLittle(std::string& to, uint64_t number) {
  for (int i = 0; i < 8; ++i) to.push_back(static_cast<char>(number >> (8 * i)));
}

uint64_t MarkCheck(const LogPosition& position) {
  return ~(position.log * 0x9e3779b97f4a7c15u ^ position.bytes * 0xff51afd7ed558ccdu);
}

// One file, block by block.
class LogReader {
 public:
  static absl::StatusOr<LogReader> Open(rocksdb::FileSystem& files,
                                        const std::string& path) {
    LogReader reader;
    rocksdb::IOStatus status =
        files.NewSequentialFile(path, rocksdb::FileOptions(), &reader.file_, nullptr);
    if (!status.ok()) return StoreStatus(status);
    return reader;
  }

  // The next block; shorter than kBlock at the end, empty behind it.
  absl::StatusOr<std::string_view> Next() {
    size_t size = 0;
    while (size < kBlock) {
      rocksdb::Slice part;
      const rocksdb::IOStatus status = file_->Read(kBlock - size, rocksdb::IOOptions(),
                                                   &part, &block_[size], nullptr);
      if (!status.ok()) return StoreStatus(status);
      if (part.empty()) break;
      if (part.data() != &block_[size]) {
        std::copy_n(part.data(), part.size(), &block_[size]);
      }
      size += part.size();
    }
    return std::string_view(block_.data(), size);
  }

 private:
  std::unique_ptr<rocksdb::FSSequentialFile> file_;
  std::vector<char> block_ = std::vector<char>(kBlock);
};

// The bytes of the fragment at the start of `rest`, header included; 0: there is none.
size_t FragmentBytes(std::string_view rest) {
  if (rest.size() < kHeader) return 0;
  const size_t length = Little(rest.data() + 4, 2);
  const unsigned char type = static_cast<unsigned char>(rest[6]);
  if (type < kFull || type > kLast || kHeader + length > rest.size()) return 0;
  const uint32_t crc = static_cast<uint32_t>(Little(rest.data(), 4));
  return crc == MaskedCrc(rest.substr(6, 1 + length)) ? kHeader + length : 0;
}

struct LogEnd {
  uint64_t whole = 0;  // bytes up to the end of the last whole record
  uint64_t size = 0;
  uint64_t sequence = 0;  // of the change that comes next, at least
};

// `sequence`: that of the first change, at least.
absl::StatusOr<LogEnd> FindEnd(LogReader& log, uint64_t sequence) {
  LogEnd end{.sequence = sequence};
  bool in_record = false, ended = false;
  uint64_t next = sequence;
  for (;;) {
    MNEMON_ASSIGN_OR_RETURN(const std::string_view block, log.Next());
    for (size_t at = 0; !ended && at < block.size();) {
      if (kBlock - at < kHeader) {
        const std::string_view rest = block.substr(at);
        ended = rest.find_first_not_of('\0') != rest.npos;
        // Not a part of the record before: a log may end without it.
        if (!in_record && !ended) end.whole = end.size + block.size();
        break;
      }
      const size_t bytes = FragmentBytes(block.substr(at));
      if (bytes == 0) {
        ended = true;
        break;
      }
      const unsigned char type = static_cast<unsigned char>(block[at + 6]);
      if (in_record != (type == kMiddle || type == kLast)) {
        ended = true;
        break;
      }
      if (!in_record) {
        const std::string_view batch = block.substr(at + kHeader, bytes - kHeader);
        if (batch.size() < kBatchHeader && type == kFull) {
          ended = true;
          break;
        }
        // RocksDB aborts the process when it finds a number twice. That of a batch
        // whose header goes on in the next block is not checked.
        if (batch.size() >= kBatchHeader) {
          const uint64_t first = Little(batch.data(), 8);
          if (first < next) {
            ended = true;
            break;
          }
          next = first + Little(batch.data() + 8, 4);
        }
      }
      in_record = type == kFirst || type == kMiddle;
      at += bytes;
      if (!in_record) {
        end.whole = end.size + at;
        end.sequence = next;
      }
    }
    end.size += block.size();
    if (block.size() < kBlock) return end;
  }
}

// The furthest position of all marks behind byte `from`, whether or not the records
// that they stand in are whole.
absl::StatusOr<LogPosition> FurthestMark(LogReader& log, uint64_t from,
                                         std::string_view id) {
  LogPosition furthest;
  // Every block begins with a fragment's header; a mark may go on behind it.
  std::string text;
  for (uint64_t begin = 0;; begin += kBlock) {
    MNEMON_ASSIGN_OR_RETURN(const std::string_view block, log.Next());
    if (begin + block.size() > from) {
      const size_t skip = from > begin ? from - begin : std::min(kHeader, block.size());
      text.append(block.substr(skip));
    }
    for (size_t at = text.find(id); at != text.npos; at = text.find(id, at + 1)) {
      if (text.size() - at < kMarkBytes) break;
      const char* fields = text.data() + at + kIdBytes;
      const LogPosition position{Little(fields, 8), Little(fields + 8, 8)};
      if (Little(fields + 16, 8) == MarkCheck(position)) {
        furthest = std::max(furthest, position);
      }
    }
    if (block.size() < kBlock) return furthest;
    if (text.size() >= kMarkBytes) text.erase(0, text.size() - (kMarkBytes - 1));
  }
}

absl::Status LogDamaged(uint64_t number, const LogEnd& end) {
  LogEvent(LogLevel::kError, "store_damaged",
           {{"log", static_cast<int64_t>(number)},
            {"whole_bytes", static_cast<int64_t>(end.whole)},
            {"bytes", static_cast<int64_t>(end.size)}});
  return MakeError(
      absl::StatusCode::kDataLoss,
      StrCat("the session store is damaged: of its log ", number, " only ", end.whole,
             " of ", end.size, " bytes can be read, and more were synced"),
      {.reason = "STORE_DAMAGED"});
}

// Replaces the log by a copy of its whole records. Also when nothing is cut off: what
// can be read may be pages whose fsync has failed, which no other one would make
// durable.
absl::Status RewriteLog(rocksdb::FileSystem& files, const std::string& database,
                        const std::string& path, uint64_t bytes) {
  const rocksdb::IOOptions options;
  const std::string temporary = database + "/mend.tmp";
  MNEMON_ASSIGN_OR_RETURN(LogReader log, LogReader::Open(files, path));
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus status =
      files.NewWritableFile(temporary, rocksdb::FileOptions(), &file, nullptr);
  while (status.ok() && bytes > 0) {
    MNEMON_ASSIGN_OR_RETURN(std::string_view block, log.Next());
    block = block.substr(0, bytes);
    if (block.empty()) return StoreStatus(rocksdb::Status::Corruption("a log shrank"));
    status = file->Append({block.data(), block.size()}, options, nullptr);
    bytes -= block.size();
  }
  if (status.ok()) status = file->Fsync(options, nullptr);
  if (status.ok()) status = file->Close(options, nullptr);
  if (status.ok()) status = files.RenameFile(temporary, path, options, nullptr);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  if (status.ok()) status = files.NewDirectory(database, options, &directory, nullptr);
  if (status.ok()) status = directory->Fsync(options, nullptr);
  return StoreStatus(status);
}

}  // namespace

std::string EncodeLogMark(std::string_view id, const LogPosition& durable) {
  std::string mark(id);
  PutLittle(mark, durable.log);
  PutLittle(mark, durable.bytes);
  PutLittle(mark, MarkCheck(durable));
  return mark;
}

uint64_t LogNumber(std::string_view file_name) {
  constexpr std::string_view kSuffix = ".log";
  if (file_name.size() <= kSuffix.size() ||
      file_name.substr(file_name.size() - kSuffix.size()) != kSuffix) {
    return 0;
  }
  uint64_t number = 0;
  const std::string digits(file_name.substr(0, file_name.size() - kSuffix.size()));
  return digits.find_first_not_of("0123456789") == digits.npos &&
                 absl::SimpleAtoi(digits, &number)
             ? number
             : 0;
}

absl::Status MendLogs(rocksdb::FileSystem& files, const std::string& database,
                      std::string_view id) {
  std::vector<std::string> names;
  if (rocksdb::IOStatus status =
          files.GetChildren(database, rocksdb::IOOptions(), &names, nullptr);
      !status.ok()) {
    return StoreStatus(status);
  }
  std::vector<std::pair<uint64_t, std::string>> logs;
  for (const std::string& name : names) {
    if (LogNumber(name) > 0) logs.emplace_back(LogNumber(name), database + "/" + name);
  }
  std::sort(logs.begin(), logs.end());
  uint64_t sequence = 0;
  for (const auto& [number, path] : logs) {
    const bool last = number == logs.back().first;
    MNEMON_ASSIGN_OR_RETURN(LogReader log, LogReader::Open(files, path));
    MNEMON_ASSIGN_OR_RETURN(const LogEnd end, FindEnd(log, sequence));
    sequence = end.sequence;
    if (end.whole < end.size) {
      if (!last) return LogDamaged(number, end);
      MNEMON_ASSIGN_OR_RETURN(LogReader again, LogReader::Open(files, path));
      MNEMON_ASSIGN_OR_RETURN(const LogPosition durable,
                              FurthestMark(again, end.whole, id));
      if (durable > LogPosition{number, end.whole}) return LogDamaged(number, end);
      LogEvent(LogLevel::kWarning, "store_log_cut",
               {{"log", static_cast<int64_t>(number)},
                {"kept_bytes", static_cast<int64_t>(end.whole)},
                {"bytes", static_cast<int64_t>(end.size)}});
    }
    if (last && end.size > 0) {
      MNEMON_RETURN_IF_ERROR(RewriteLog(files, database, path, end.whole));
    }
  }
  return absl::OkStatus();
}

}  // namespace mnemon
