// SPDX-License-Identifier: MIT
// The record of a session: what a snapshot says of it beside history and state, a JSON
// object. Keys, each absent where the session has no such thing:
//   ttl_ms    integer
//   sampling  object: the members of RequestedSampling by their names, logit_bias as a
//             list of [token, bias], where null is minus infinity; "seed" as a text of
//             decimal digits
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/engine/request.h"

namespace mnemon {

struct SessionRecord {
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<SessionSampling> sampling;

  bool operator==(const SessionRecord&) const = default;
};

std::string FormatSessionRecord(const SessionRecord& record);

// Keys of later versions are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the key that
// is not as described.
absl::StatusOr<SessionRecord> ParseSessionRecord(const std::string& text);

}  // namespace mnemon
