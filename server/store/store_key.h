// SPDX-License-Identifier: MIT
// How a session and a name make one key: the id, and in tables with names a zero byte
// and the name. No id has a zero byte, so "a" and "a1" share no prefix. Sessions of
// another namespace than the default one have \1, the namespace and a zero byte before
// their ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/store/session_store.h"

namespace mnemon {

// INVALID_ARGUMENT when `session` or `name` is not one of `table`.
absl::Status CheckStoreKey(StoreTable table, const SessionKey& session,
                           std::string_view name);
// INVALID_ARGUMENT when `session` is not one.
absl::Status CheckSessionKey(const SessionKey& session);

// Why changes cannot be written, as SessionStore::Commit has it.
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
