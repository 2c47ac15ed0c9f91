// SPDX-License-Identifier: MIT
// The load on a server, by the generator of `mnemon loadtest`, and the figures of a
// time window of it.
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

// Sleeps, and returns the time that passed.
Interval Pass(double seconds);

// `count` tokens of a vocabulary, others for each `seed`.
std::vector<int32_t> DrawPrompt(int64_t count, uint64_t seed);
// A stateless greedy call.
v1::GenerateRequest MakeRequest(const std::string& model, int64_t prompt_tokens,
                                int64_t new_tokens, uint64_t seed);

// A load of stateless greedy calls for client::Load; its loop is still to be chosen.
// Any lateness of the client is taken.
client::LoadOptions LoadOf(const std::string& model, int32_t prompt_tokens,
                           int32_t new_tokens);
// Runs it on a server on loopback, with connections of its own: all calls, once they
// have ended. An error when the server goes away.
absl::StatusOr<std::vector<CallRecord>> RunLoad(int port, client::LoadOptions load);

// When the first of them began. REQUIRES: there is one.
TimePoint BeginOf(std::span<const CallRecord> records);
// Calls that ended OK per second of the interval, each counted with the share of its
// tokens that arrived there: calls of a batch end together, and a count of ends would
// move by a batch.
double CompletedPerSecond(std::span<const CallRecord> records,
                          const Interval& interval);
// Tokens that arrived in the interval, per second.
double TokensPerSecond(std::span<const CallRecord> records, const Interval& interval);
// Seconds between neighbouring tokens of a call, wherever the time between them and the
// interval have a part in common.
std::vector<double> GapsIn(std::span<const CallRecord> records,
                           const Interval& interval);

// The p99 and the median of samples; 0 without any.
double P99(std::vector<double> samples);
double Median(std::vector<double> samples);

}  // namespace mnemon::serving
