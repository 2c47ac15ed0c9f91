// SPDX-License-Identifier: MIT
// The record of a session in a snapshot, beside history and state: a JSON object. Keys,
// each absent if the session has no such value:
//   ttl_ms    integer
//   sampling  object: the members of RequestedSampling by their names, logit_bias as a
//             list of [token, bias], where null is minus infinity; "seed" as a string
//             of decimal digits
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/requests/request.h"

namespace mnemon {

struct SessionRecord {
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<SessionSampling> sampling;

  bool operator==(const SessionRecord&) const = default;
};

std::string FormatSessionRecord(const SessionRecord& record);

// Unknown keys, of later versions, are ignored. DATA_LOSS, SNAPSHOT_DAMAGED, names the
// malformed key.
absl::StatusOr<SessionRecord> ParseSessionRecord(const std::string& text);

}  // namespace mnemon
