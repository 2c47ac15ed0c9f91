// SPDX-License-Identifier: MIT
// The limits that a call must meet to count as good.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/call_times.h"

namespace mnemon::client {

// Seconds, above 0 and at most a day, of "100ms", "2s" or "500us". INVALID_ARGUMENT.
absl::StatusOr<double> ParseSeconds(const std::string& text);

// In seconds; nullopt: any time is good.
struct GoodputLimits {
  std::optional<double> ttft;
  std::optional<double> itl;  // of a call: the mean of its gaps
  std::optional<double> tpot;
  std::optional<double> e2e;
  bool any() const { return ttft || itl || tpot || e2e; }
};

// "ttft=100ms,itl=10ms,e2e=2s"; each at most once. INVALID_ARGUMENT names the part.
absl::StatusOr<GoodputLimits> ParseGoodputLimits(const std::string& text);

// A time that a call does not have, as the gap of its only token, is good; but without
// a first token no limit on that is met.
bool Meets(const CallTimes& times, const GoodputLimits& limits);

}  // namespace mnemon::client
