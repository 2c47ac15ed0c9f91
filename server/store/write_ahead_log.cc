// SPDX-License-Identifier: MIT
// The format is that of RocksDB's log_format.h: blocks of 32 KiB, filled with
// fragments, each a checksum (masked CRC-32C of what follows the length), a length (16
// bits, little endian) and a type (full, first, middle, last) before its bytes. Less
// than a header's room at the end of a block is zero. Options that write other types
// are off.
#include "server/store/write_ahead_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/status_macros.h"
#include "server/store/store_status.h"

namespace mnemon {
namespace {

constexpr size_t kBlock = 32768;
constexpr size_t kHeader = 7;
constexpr size_t kBatchHeader = 12;  // of a record: a sequence number, a count
constexpr size_t kMarkIdBytes = 16;
constexpr size_t kMarkBytes = kMarkIdBytes + 3 * 8;
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

uint64_t MarkCheck(uint64_t before, uint64_t number) {
  return ~(before * 0x9e3779b97f4a7c15u ^ number * 0xff51afd7ed558ccdu);
}

absl::StatusOr<std::string> ReadLog(rocksdb::FileSystem& files,
                                    const std::string& path) {
  std::string text;
  MNEMON_RETURN_IF_ERROR(StoreStatus(rocksdb::ReadFileToString(&files, path, &text)));
  return text;
}

// The bytes of the fragment at the start of `rest`, header included; 0: there is none.
size_t FragmentBytes(std::string_view rest) {
  if (rest.size() < kHeader) return 0;
  const size_t length = Little(rest.data() + 4, 2);
  const unsigned char type = static_cast<unsigned char>(rest[6]);
  if (type < kFull || type > kLast || kHeader + length > rest.size()) return 0;
  const uint32_t crc = static_cast<uint32_t>(Little(rest.data(), 4));
  return crc == MaskedCrc(rest.substr(6, 1 + length)) ? kHeader + length : 0;
}

// Reads the whole records of a log in order, and notes places that cannot be read.
class LogRecords {
 public:
  // `sequence`: the least that the first change can have.
  LogRecords(std::string_view text, uint64_t sequence)
      : text_(text), sequence_(sequence) {}

  // Goes to the next record; false: there is none.
  bool Next() {
    gap_ = false;
    record_.clear();
    bool in_record = false;
    while (at_ < text_.size()) {
      const std::string_view block =
          text_.substr(at_, std::min(kBlock - at_ % kBlock, text_.size() - at_));
      if (at_ % kBlock > kBlock - kHeader) {
        // The rest of a block: zeros.
        gap_ = gap_ || block.find_first_not_of('\0') != block.npos;
        at_ += block.size();
        // Not a part of the record before: a log may end without it.
        if (!in_record && !damaged()) whole_ = at_;
        continue;
      }
      const size_t bytes = FragmentBytes(block);
      const unsigned char type = bytes == 0 ? 0 : static_cast<unsigned char>(block[6]);
      const bool goes_on = type == kMiddle || type == kLast;
      if (bytes == 0 || in_record != goes_on) {
        gap_ = true;
        record_.clear();
        in_record = false;
        // What begins a record here is not lost with the one before.
        if (bytes == 0) {
          ++at_;
        } else if (goes_on) {
          at_ += bytes;
        }
        continue;
      }
      record_.append(block.substr(kHeader, bytes - kHeader));
      in_record = type == kFirst || type == kMiddle;
      at_ += bytes;
      if (in_record) continue;
      if (TakeSequence()) {
        if (!damaged()) whole_ = at_;
        damaged_ = damaged();
        return true;
      }
      gap_ = true;
      record_.clear();
    }
    gap_ = gap_ || in_record;
    damaged_ = damaged();
    return false;
  }

  std::string_view record() const { return record_; }
  // Bytes between the record before and this one, or the end, could not be read.
  bool gap() const { return gap_; }
  // The least that the next change can have.
  uint64_t sequence() const { return sequence_; }
  // Bytes up to the first that cannot be read.
  uint64_t whole() const { return whole_; }

 private:
  bool damaged() const { return damaged_ || gap_; }

  // RocksDB aborts the process when it finds a number twice.
  bool TakeSequence() {
    if (record_.size() < kBatchHeader) return false;
    const uint64_t first = Little(record_.data(), 8);
    if (first < sequence_) return false;
    sequence_ = first + Little(record_.data() + 8, 4);
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
  uint64_t sequence_;
  std::string record_;
  bool gap_ = false;
  bool damaged_ = false;  // a gap came before
  uint64_t whole_ = 0;
};

struct LogMark {
  uint64_t before = 0;
  uint64_t number = 0;
};

// The mark at the beginning of a commit's record; nullopt: it has none.
std::optional<LogMark> MarkOf(std::string_view record, std::string_view id) {
  if (id.empty()) return std::nullopt;
  const size_t at = record.substr(0, kBatchHeader + 2 + kMarkIdBytes).find(id);
  if (at == record.npos || record.size() - at < kMarkBytes) return std::nullopt;
  const char* const fields = record.data() + at + kMarkIdBytes;
  const LogMark mark{Little(fields, 8), Little(fields + 8, 8)};
  if (Little(fields + 16, 8) != MarkCheck(mark.before, mark.number)) {
    return std::nullopt;
  }
  return mark;
}

LogStart StartOf(std::string_view first, const LogMark& mark) {
  return {.sequence = Little(first.data(), 8), .before = mark.before};
}

// Paths, in the order of their numbers.
absl::StatusOr<std::vector<std::string>> LogsOf(rocksdb::FileSystem& files,
                                                const std::string& database) {
  std::vector<std::string> names;
  const rocksdb::IOStatus status =
      files.GetChildren(database, rocksdb::IOOptions(), &names, nullptr);
  if (!status.ok()) return StoreStatus(status);
  std::erase_if(names, [](const std::string& name) { return LogNumber(name) == 0; });
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return LogNumber(a) < LogNumber(b); });
  for (std::string& name : names) name = database + "/" + name;
  return names;
}

absl::Status LogDamaged(const std::string& path, const LogRecords& records,
                        const std::string& text) {
  LogEvent(LogLevel::kError, "store_log_damaged",
           {{"log", static_cast<int64_t>(LogNumber(path))},
            {"whole_bytes", static_cast<int64_t>(records.whole())},
            {"bytes", static_cast<int64_t>(text.size())}});
  return StoreDamaged("a log of the session store is damaged");
}

// Adds a record to the text of a log.
void AppendRecord(std::string& log, std::string_view record) {
  for (bool first = true, last = false; !last; first = false) {
    size_t left = kBlock - log.size() % kBlock;
    if (left < kHeader) {
      log.append(left, '\0');
      left = kBlock;
    }
    const std::string_view part = record.substr(0, left - kHeader);
    record.remove_prefix(part.size());
    last = record.empty();
    const LogFragment type = first ? (last ? kFull : kFirst) : last ? kLast : kMiddle;
    std::string typed(1, static_cast<char>(type));
    typed.append(part);
    PutLittle(log, MaskedCrc(typed), 4);
    PutLittle(log, part.size(), 2);
    log.append(typed);
  }
}

// Also where nothing changes: what can be read may be pages whose fsync has failed,
// which nothing else would make durable.
absl::Status RewriteLog(rocksdb::FileSystem& files, const std::string& path,
                        std::string_view text) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string temporary = folder + "/mend.tmp";
  rocksdb::IOStatus status =
      rocksdb::WriteStringToFile(&files, text, temporary, /*should_sync=*/true);
  if (status.ok()) status = files.RenameFile(temporary, path, {}, nullptr);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  if (status.ok()) status = files.NewDirectory(folder, {}, &directory, nullptr);
  if (status.ok()) status = directory->Fsync({}, nullptr);
  return StoreStatus(status);
}

}  // namespace

uint64_t Little(const char* at, size_t bytes) {
  uint64_t number = 0;
  for (size_t i = bytes; i-- > 0;) {
    number = number << 8 | static_cast<unsigned char>(at[i]);
  }
  return number;
}

void PutLittle(std::string& to, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(number >> (8 * i)));
}

std::string EncodeLogMark(std::string_view id, uint64_t before, uint64_t number) {
  std::string mark(id);
  PutLittle(mark, before);
  PutLittle(mark, number);
  PutLittle(mark, MarkCheck(before, number));
  return mark;
}

uint64_t LogNumber(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const char* const end = name.data() + name.size();
  uint64_t number = 0;
  const auto parsed = std::from_chars(name.data(), end, number);
  return std::string_view(parsed.ptr, end) == ".log" ? number : 0;
}

absl::StatusOr<std::optional<LogStart>> CheckLogs(rocksdb::FileSystem& files,
                                                  const std::string& database,
                                                  std::string_view id,
                                                  uint64_t synced) {
  std::optional<LogStart> start;
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> logs, LogsOf(files, database));
  uint64_t sequence = 0;
  uint64_t number = 0;  // the last commit before any place that cannot be read; 0: none
  for (const std::string& path : logs) {
    MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadLog(files, path));
    LogRecords records(text, sequence);
    bool gap = false;
    while (records.Next()) {
      gap = gap || records.gap();
      const std::optional<LogMark> mark = MarkOf(records.record(), id);
      if (!mark) continue;
      if (!start) start = StartOf(records.record(), *mark);
      const bool missing = gap || (number > 0 && mark->before > number);
      // Without one before it all that is known to be missing is what came just before.
      const uint64_t first = number > 0 ? number + 1 : mark->before;
      if (missing && first <= synced) return LogDamaged(path, records, text);
      if (!missing) number = mark->number;
    }
    sequence = records.sequence();
    gap = gap || records.gap();
    // A log before the last one is whole: it was synced before that was made.
    if (gap && (path != logs.back() || (number > 0 && number < synced))) {
      return LogDamaged(path, records, text);
    }
  }
  return start;
}

absl::Status CutTornTail(rocksdb::FileSystem& files, const std::string& database) {
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> logs, LogsOf(files, database));
  uint64_t sequence = 0;
  for (const std::string& path : logs) {
    MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadLog(files, path));
    LogRecords records(text, sequence);
    while (records.Next() && !records.gap()) sequence = records.sequence();
    if (path != logs.back() || text.empty()) continue;
    if (records.whole() < text.size()) {
      LogEvent(LogLevel::kInfo, "store_log_cut",
               {{"log", static_cast<int64_t>(LogNumber(path))},
                {"kept_bytes", static_cast<int64_t>(records.whole())},
                {"bytes", static_cast<int64_t>(text.size())}});
    }
    MNEMON_RETURN_IF_ERROR(
        RewriteLog(files, path, std::string_view(text).substr(0, records.whole())));
  }
  return absl::OkStatus();
}

absl::StatusOr<SalvagedLogs> SalvageLogs(rocksdb::FileSystem& files,
                                         const std::string& database,
                                         std::string_view id) {
  SalvagedLogs salvaged;
  MNEMON_ASSIGN_OR_RETURN(const std::vector<std::string> logs, LogsOf(files, database));
  uint64_t sequence = 0;
  uint64_t number = 0;
  for (const std::string& path : logs) {
    MNEMON_ASSIGN_OR_RETURN(const std::string text, ReadLog(files, path));
    LogRecords records(text, sequence);
    std::string kept;
    while (records.Next()) {
      const std::optional<LogMark> mark = MarkOf(records.record(), id);
      const bool missing = mark && number > 0 && mark->before > number;
      if (records.gap() || missing) ++salvaged.gaps;
      if (mark && !salvaged.start) salvaged.start = StartOf(records.record(), *mark);
      if (mark) number = std::max(number, mark->number);
      AppendRecord(kept, records.record());
    }
    if (records.gap()) ++salvaged.gaps;
    sequence = records.sequence();
    MNEMON_RETURN_IF_ERROR(RewriteLog(files, path, kept));
  }
  return salvaged;
}

}  // namespace mnemon
