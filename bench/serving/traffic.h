// SPDX-License-Identifier: MIT
// Load on a server, from the generator of `mnemon loadtest`, and figures of a time
// window.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/serving/calls.h"

namespace mnemon::serving {

// A stretch of time.
struct Interval {
  TimePoint from;
  TimePoint to;
  double seconds() const { return Seconds(to - from).count(); }
  bool holds(TimePoint t) const { return t >= from && t < to; }
};

// Sleeps; returns the interval that passed.
Interval Pass(double seconds);

// `count` tokens of a vocabulary, different for each `seed`.
std::vector<int32_t> DrawPrompt(int64_t count, uint64_t seed);
// A stateless greedy call.
v1::GenerateRequest MakeRequest(const std::string& model, int64_t prompt_tokens,
                                int64_t new_tokens, uint64_t seed);

// A load of stateless greedy calls for client::Load, with the loop still to be chosen.
// Any lateness of the client is accepted.
client::LoadOptions LoadOf(const std::string& model, int32_t prompt_tokens,
                           int32_t new_tokens);
// Runs it on a server on loopback, with its own connections; returns all calls when
// they have ended. An error if the server goes away.
absl::StatusOr<std::vector<CallRecord>> RunLoad(int port, client::LoadOptions load);

// Begin of the first call. REQUIRES: there is one.
TimePoint BeginOf(std::span<const CallRecord> records);
// Calls that ended OK per second of the interval, each counted by the share of its
// tokens that arrived within it: calls of a batch end together, and a count of ends
// would jump by a batch.
double CompletedPerSecond(std::span<const CallRecord> records,
                          const Interval& interval);
// Tokens that arrived in the interval, per second.
double TokensPerSecond(std::span<const CallRecord> records, const Interval& interval);
// Gaps in seconds between neighbouring tokens of a call that overlap the interval.
std::vector<double> GapsIn(std::span<const CallRecord> records,
                           const Interval& interval);

// The p99 and the median of samples; 0 without any.
double P99(std::vector<double> samples);
double Median(std::vector<double> samples);

}  // namespace mnemon::serving
