// SPDX-License-Identifier: MIT
#include "server/state/store_key.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kMaxSnapshotName = 255;

}  // namespace

absl::Status CheckStoreId(std::string_view id) {
  if (IsResourceId(id)) return absl::OkStatus();
  return InvalidField("id", StrCat("an id is ", kResourceIdRule, ", not ", Quoted(id)));
}

absl::Status CheckStoreKey(StoreTable table, std::string_view id,
                           std::string_view name) {
  if (absl::Status status = CheckStoreId(id); !status.ok()) return status;
  switch (table) {
    case StoreTable::kSessions:
      if (name.empty()) return absl::OkStatus();
      return InvalidField("name", "a session's record has no name");
    case StoreTable::kJournal:
      if (name.size() == kNumberBytes) return absl::OkStatus();
      return InvalidField("name", StrCat("the name of a journal's entry has ",
                                         kNumberBytes, " bytes, not ", name.size()));
    case StoreTable::kSnapshots:
      if (!name.empty() && name.size() <= kMaxSnapshotName) return absl::OkStatus();
      return InvalidField("name",
                          StrCat("the name of a snapshot has 1 to ", kMaxSnapshotName,
                                 " bytes, not ", name.size()));
  }
  return InvalidField("table", "there is no such table");
}

std::string StoreKey(StoreTable table, std::string_view id, std::string_view name) {
  std::string key(id);
  if (table != StoreTable::kSessions) {
    key.push_back('\0');
    key.append(name);
  }
  return key;
}

StoreKeySpan StoreKeysOf(StoreTable table, std::string_view id) {
  StoreKeySpan span{std::string(id), std::string(id)};
  if (table != StoreTable::kSessions) span.begin.push_back('\0');
  span.end.push_back(table == StoreTable::kSessions ? '\0' : '\1');
  return span;
}

std::optional<StoreKeyParts> SplitStoreKey(StoreTable table, std::string_view key) {
  StoreKeyParts parts{.id = key};
  if (table != StoreTable::kSessions) {
    const size_t zero = key.find('\0');
    if (zero == key.npos) return std::nullopt;
    parts = {.id = key.substr(0, zero), .name = key.substr(zero + 1)};
  }
  if (!CheckStoreKey(table, parts.id, parts.name).ok()) return std::nullopt;
  return parts;
}

}  // namespace mnemon
