// SPDX-License-Identifier: MIT
// The record of a session: what a snapshot says of it beside history and state, a JSON
// object. Keys: "ttl_ms", absent without a ttl.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct SessionRecord {
  std::optional<std::chrono::milliseconds> ttl;

  bool operator==(const SessionRecord&) const = default;
};

std::string FormatSessionRecord(const SessionRecord& record);

// Keys of later versions are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the key that
// is not as described.
absl::StatusOr<SessionRecord> ParseSessionRecord(const std::string& text);

}  // namespace mnemon
