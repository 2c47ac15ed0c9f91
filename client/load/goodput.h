// SPDX-License-Identifier: MIT
// Limits that a call must meet to count as good.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/load/call_times.h"

namespace mnemon::client {

// Parses seconds, above 0 and at most a day, from "100ms", "2s" or "500us".
// INVALID_ARGUMENT.
absl::StatusOr<double> ParseSeconds(const std::string& text);

// In seconds; nullopt: any time is good.
struct GoodputLimits {
  std::optional<double> ttft;
  std::optional<double> itl;  // the mean gap of a call
  std::optional<double> tpot;
  std::optional<double> e2e;
  bool any() const { return ttft || itl || tpot || e2e; }
};

// Parses "ttft=100ms,itl=10ms,e2e=2s"; each at most once. INVALID_ARGUMENT names the
// part.
absl::StatusOr<GoodputLimits> ParseGoodputLimits(const std::string& text);

// A missing time, such as the gap of a single token, is good; but without a first
// token, limits on it are not met.
bool Meets(const CallTimes& times, const GoodputLimits& limits);

}  // namespace mnemon::client
