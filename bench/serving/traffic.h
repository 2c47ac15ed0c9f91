// SPDX-License-Identifier: MIT
// The load on a server: callers in a closed loop or arrivals in an open one, and the
// figures of a time window of it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

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
void FillPrompt(int64_t count, uint64_t seed, v1::GenerateRequest& request);
// A stateless greedy call.
v1::GenerateRequest MakeRequest(const std::string& model, int64_t prompt_tokens,
                                int64_t new_tokens, uint64_t seed);

using RequestOf = std::function<v1::GenerateRequest(int64_t number)>;

// `callers` threads, each with one call at a time, for `seconds`; a caller that was
// refused waits 20 ms. Returns when all calls have ended.
std::vector<CallRecord> RunClosedLoop(Connections& connections, int callers,
                                      const RequestOf& request,
                                      const CallOptions& options, double seconds);

// Calls at `rate` per second at random times (Poisson, from a fixed seed) for
// `seconds`, whatever becomes of them. Returns when all have ended.
std::vector<CallRecord> RunOpenLoop(Connections& connections, double rate,
                                    const RequestOf& request,
                                    const CallOptions& options, double seconds);

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
