// SPDX-License-Identifier: MIT
// One change of a session's history as its journal stores it: which tokens stay, and
// which follow them. Bytes: `kept` as 8 bytes, then 4 for each token, little endian.
//
// It may be applied to any history that begins with the same `kept` tokens as the one
// that it was made for, also a second time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon {

struct JournalEntry {
  int64_t kept = 0;
  std::vector<int32_t> tokens;

  bool operator==(const JournalEntry&) const = default;
};

// Tokens alone, 4 bytes each, little endian.
std::string FormatTokens(std::span<const int32_t> tokens);
std::string FormatJournalEntry(int64_t kept, std::span<const int32_t> tokens);

// The errors of all below are DATA_LOSS, JOURNAL_DAMAGED.
absl::StatusOr<std::vector<int32_t>> ParseTokens(std::string_view bytes);
// The length must be one of an entry, and no number negative.
absl::StatusOr<JournalEntry> ParseJournalEntry(std::string_view bytes);
// An error, and no change, if the history is shorter than what stays of it.
absl::Status ApplyJournalEntry(const JournalEntry& entry, std::vector<int32_t>& tokens);

}  // namespace mnemon
