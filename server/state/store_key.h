// SPDX-License-Identifier: MIT
// How a session's id and a name make one key: the id, and in tables with names a zero
// byte and the name. No id has a zero byte, so "a" and "a1" share no prefix.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/state/session_store.h"

namespace mnemon {

// INVALID_ARGUMENT when `id` or `name` is not one of `table`.
absl::Status CheckStoreKey(StoreTable table, std::string_view id,
                           std::string_view name);
// INVALID_ARGUMENT when `id` is not one.
absl::Status CheckStoreId(std::string_view id);

// REQUIRES: CheckStoreKey is OK.
std::string StoreKey(StoreTable table, std::string_view id, std::string_view name);

// Every key of `id`: begin <= key < end.
struct StoreKeySpan {
  std::string begin;
  std::string end;
};
StoreKeySpan StoreKeysOf(StoreTable table, std::string_view id);

// Views of `key`; nullopt when it was not made by StoreKey.
struct StoreKeyParts {
  std::string_view id;
  std::string_view name;
};
std::optional<StoreKeyParts> SplitStoreKey(StoreTable table, std::string_view key);

}  // namespace mnemon
