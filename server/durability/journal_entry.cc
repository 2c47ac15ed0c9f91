// SPDX-License-Identifier: MIT
#include "server/durability/journal_entry.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

static_assert(std::endian::native == std::endian::little);

absl::Status DamagedEntry(std::string_view what) {
  return MakeError(absl::StatusCode::kDataLoss,
                   StrCat("the journal of the session: ", what),
                   {.reason = "JOURNAL_DAMAGED"});
}

absl::StatusOr<int64_t> KeptOf(std::string_view bytes) {
  int64_t kept = 0;
  if (bytes.size() < sizeof(kept) || bytes.size() % sizeof(int32_t) != 0) {
    return DamagedEntry(StrCat("an entry has ", bytes.size(), " bytes"));
  }
  std::memcpy(&kept, bytes.data(), sizeof(kept));
  if (kept < 0) return DamagedEntry("an entry keeps fewer than no tokens");
  return kept;
}

}  // namespace

std::string FormatJournalEntry(int64_t kept, std::span<const int32_t> tokens) {
  std::string bytes(sizeof(kept) + tokens.size_bytes(), '\0');
  std::memcpy(bytes.data(), &kept, sizeof(kept));
  if (!tokens.empty()) {
    std::memcpy(bytes.data() + sizeof(kept), tokens.data(), tokens.size_bytes());
  }
  return bytes;
}

std::string FormatTokens(std::span<const int32_t> tokens) {
  std::string bytes(tokens.size_bytes(), '\0');
  if (!tokens.empty()) std::memcpy(bytes.data(), tokens.data(), tokens.size_bytes());
  return bytes;
}

absl::StatusOr<std::vector<int32_t>> ParseTokens(std::string_view bytes) {
  if (bytes.size() % sizeof(int32_t) != 0) {
    return DamagedEntry(StrCat("tokens have ", bytes.size(), " bytes"));
  }
  std::vector<int32_t> tokens(bytes.size() / sizeof(int32_t));
  if (!tokens.empty()) std::memcpy(tokens.data(), bytes.data(), bytes.size());
  return tokens;
}

absl::StatusOr<JournalEntry> ParseJournalEntry(std::string_view bytes) {
  JournalEntry entry;
  MNEMON_ASSIGN_OR_RETURN(entry.kept, KeptOf(bytes));
  bytes.remove_prefix(sizeof(entry.kept));
  entry.tokens.resize(bytes.size() / sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(entry.tokens.data(), bytes.data(), bytes.size());
  for (const int32_t token : entry.tokens) {
    if (token < 0) return DamagedEntry("an entry has a negative token");
  }
  return entry;
}

absl::StatusOr<int64_t> SizeAfterJournalEntry(std::string_view bytes) {
  MNEMON_ASSIGN_OR_RETURN(const int64_t kept, KeptOf(bytes));
  return kept + static_cast<int64_t>((bytes.size() - sizeof(kept)) / sizeof(int32_t));
}

absl::Status ApplyJournalEntry(const JournalEntry& entry,
                               std::vector<int32_t>& tokens) {
  const auto kept = static_cast<size_t>(entry.kept);
  if (kept > tokens.size()) {
    return DamagedEntry(StrCat("an entry keeps ", kept, " tokens of ", tokens.size()));
  }
  tokens.resize(kept);
  tokens.insert(tokens.end(), entry.tokens.begin(), entry.tokens.end());
  return absl::OkStatus();
}

}  // namespace mnemon
