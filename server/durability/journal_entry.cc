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

}  // namespace

std::string FormatTokens(std::span<const int32_t> tokens) {
  return std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
}

std::string FormatJournalEntry(int64_t kept, std::span<const int32_t> tokens) {
  std::string bytes;
  bytes.reserve(sizeof(kept) + tokens.size_bytes());
  bytes.append(reinterpret_cast<const char*>(&kept), sizeof(kept));
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
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
  if (bytes.size() < sizeof(entry.kept) || bytes.size() % sizeof(int32_t) != 0) {
    return DamagedEntry(StrCat("an entry has ", bytes.size(), " bytes"));
  }
  std::memcpy(&entry.kept, bytes.data(), sizeof(entry.kept));
  if (entry.kept < 0) return DamagedEntry("an entry keeps fewer than no tokens");
  MNEMON_ASSIGN_OR_RETURN(entry.tokens, ParseTokens(bytes.substr(sizeof(entry.kept))));
  for (const int32_t token : entry.tokens) {
    if (token < 0) return DamagedEntry("an entry has a negative token");
  }
  return entry;
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
