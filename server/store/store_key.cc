// SPDX-License-Identifier: MIT
#include "server/store/store_key.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/resource_id.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr size_t kNumberBytes = 8;
constexpr size_t kMaxName = 255;
constexpr char kOtherNamespace = '\1';

std::string SessionPart(const SessionKey& session) {
  std::string key;
  if (session.space != kDefaultNamespace) {
    key.push_back(kOtherNamespace);
    key.append(session.space);
    key.push_back('\0');
  }
  key.append(session.id);
  return key;
}

}  // namespace

absl::Status CheckSessionKey(const SessionKey& session) {
  if (!IsResourceId(session.id)) {
    return InvalidField(
        "id", StrCat("an id is ", kResourceIdRule, ", not ", Quoted(session.id)));
  }
  if (!IsResourceId(session.space)) {
    return InvalidField("namespace", StrCat("a namespace is ", kResourceIdRule,
                                            ", not ", Quoted(session.space)));
  }
  return absl::OkStatus();
}

absl::Status CheckStoreKey(StoreTable table, const SessionKey& session,
                           std::string_view name) {
  MNEMON_RETURN_IF_ERROR(CheckSessionKey(session));
  switch (table) {
    case StoreTable::kSessions:
      if (name.empty()) return absl::OkStatus();
      return InvalidField("name", "a session's record has no name");
    case StoreTable::kJournal:
      if (name.size() == kNumberBytes) return absl::OkStatus();
      return InvalidField("name", StrCat("the name of a journal's entry has ",
                                         kNumberBytes, " bytes, not ", name.size()));
    case StoreTable::kCheckpoints:
    case StoreTable::kSnapshotsOfFormat1:
      if (!name.empty() && name.size() <= kMaxName) return absl::OkStatus();
      return InvalidField("name", StrCat("the name of a checkpoint has 1 to ", kMaxName,
                                         " bytes, not ", name.size()));
  }
  return InvalidField("table", "there is no such table");
}

absl::Status CheckChanges(const SessionChanges& session) {
  MNEMON_RETURN_IF_ERROR(CheckSessionKey(session.session));
  int64_t bytes = 0;
  for (const StoreChange& change : session.changes) {
    if (change.kind == StoreChange::Kind::kDeleteAll) {
      if (!change.name.empty()) {
        return InvalidField("name", "all of a session's keys have no one name");
      }
    } else {
      MNEMON_RETURN_IF_ERROR(CheckStoreKey(change.table, session.session, change.name));
    }
    bytes += static_cast<int64_t>(change.name.size() + change.value.size());
    if (bytes > SessionStore::kMaxChangeBytes) {
      return MakeError(absl::StatusCode::kResourceExhausted,
                       StrCat("a session's changes have more than the ",
                              SessionStore::kMaxChangeBytes, " bytes they may have"),
                       {.reason = "COMMIT_TOO_LARGE"});
    }
  }
  return absl::OkStatus();
}

std::string StoreKey(StoreTable table, const SessionKey& session,
                     std::string_view name) {
  std::string key = SessionPart(session);
  if (table != StoreTable::kSessions) {
    key.push_back('\0');
    key.append(name);
  }
  return key;
}

StoreKeySpan StoreKeysOf(StoreTable table, const SessionKey& session) {
  const std::string part = SessionPart(session);
  StoreKeySpan span{part, part};
  if (table != StoreTable::kSessions) span.begin.push_back('\0');
  span.end.push_back(table == StoreTable::kSessions ? '\0' : '\1');
  return span;
}

StoreKeySpan AllStoreKeys() { return {"", "\x7f"}; }

std::optional<StoreKeyParts> SplitStoreKey(StoreTable table, std::string_view key) {
  StoreKeyParts parts;
  if (!key.empty() && key.front() == kOtherNamespace) {
    const size_t zero = key.find('\0');
    if (zero == key.npos) return std::nullopt;
    parts.session.space = key.substr(1, zero - 1);
    key.remove_prefix(zero + 1);
  }
  parts.session.id = key;
  if (table != StoreTable::kSessions) {
    const size_t zero = key.find('\0');
    if (zero == key.npos) return std::nullopt;
    parts.session.id = key.substr(0, zero);
    parts.name = key.substr(zero + 1);
  }
  if (!CheckStoreKey(table, parts.session, parts.name).ok()) return std::nullopt;
  return parts;
}

}  // namespace mnemon
