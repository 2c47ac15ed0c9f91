// SPDX-License-Identifier: MIT
// The key of a session and a name: the id, and in tables with names a zero byte and the
// name. No id has a zero byte, so "a" and "a1" share no prefix. Sessions of a namespace
// other than the default have \1, the namespace and a zero byte before their ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/store/session_store.h"

namespace mnemon {

// The tables of the newest format.
inline constexpr StoreTable kStoreTables[] = {
    StoreTable::kSessions, StoreTable::kJournal, StoreTable::kCheckpoints};

// INVALID_ARGUMENT for a bad session, or a name that `table` cannot have.
absl::Status CheckStoreKey(StoreTable table, const SessionKey& session,
                           std::string_view name);
absl::Status CheckSessionKey(const SessionKey& session);
// The `status` that SessionStore::Commit gives `session`.
absl::Status CheckChanges(const SessionChanges& session);

// REQUIRES: CheckStoreKey is OK.
std::string StoreKey(StoreTable table, const SessionKey& session,
                     std::string_view name);

// Keys with begin <= key < end.
struct StoreKeySpan {
  std::string begin;
  std::string end;
};
// Every key of `session`.
StoreKeySpan StoreKeysOf(StoreTable table, const SessionKey& session);
// Every key of a table.
StoreKeySpan AllStoreKeys();

// Views of `key`; nullopt when it was not made by StoreKey.
struct StoreKeyParts {
  SessionKey session;
  std::string_view name;
};
std::optional<StoreKeyParts> SplitStoreKey(StoreTable table, std::string_view key);

}  // namespace mnemon
