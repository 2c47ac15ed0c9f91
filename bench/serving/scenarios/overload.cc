// SPDX-License-Identifier: MIT
// More calls than the server can serve: how many still end in time, and how soon the
// others are refused.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct OverloadShape {
  int sessions;
  double deadline;  // of a client's call, seconds
  double warm_up;   // seconds
  double measured;  // seconds
  int turns;
};

constexpr OverloadShape kOverloadFull = {64, 6, 4, 10, 3};
constexpr OverloadShape kOverloadQuick = {16, 2, 2, 4, 1};

constexpr int32_t kOverloadPrompt = 16;  // tokens
// More than the server's running and waiting calls.
constexpr int kOverloadInFlight = 512;
constexpr const char* kOverloadRefusals[] = {"RESOURCE_EXHAUSTED", "UNAVAILABLE"};

// One core is left for handling calls and for the load generator: with steps on all
// cores, the generator would take time that it would not take on another machine.
int64_t StepThreads() {
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::thread::hardware_concurrency()) - 1);
}

HistogramPage RefusalsOf(const MetricsPage& page) {
  HistogramPage all;
  for (const char* status : kOverloadRefusals) {
    const HistogramPage one =
        page.Histogram("grpc_server_call_duration_seconds",
                       {"grpc_method=\"mnemon.v1.Generation/Generate\"",
                        StrCat("grpc_status=\"", status, "\"")});
    all.count += one.count;
    all.sum += one.sum;
    for (const auto& [bound, count] : one.buckets) all.buckets[bound] += count;
  }
  return all;
}

// The rest of the loop's time after the warm-up; ends before the last calls, which run
// without others, do.
Interval Measured(TimePoint begin, const OverloadShape& shape) {
  const auto at = [&](double seconds) {
    return begin + std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
  };
  return {at(shape.warm_up), at(shape.warm_up + shape.measured)};
}

// Tokens of a call that takes a third of the deadline when the server is just busy, so
// that on a machine of any speed a call that waits for many others comes too late. The
// second try is nearly as long, so that the prompt's share of the time is right.
absl::StatusOr<int32_t> TokensPerCall(int port, const OverloadShape& shape) {
  int32_t tokens = 8;
  for (int tried = 0; tried < 2; ++tried) {
    client::LoadOptions load = LoadOf("m", kOverloadPrompt, tokens);
    load.concurrency = shape.sessions;
    load.seconds = shape.warm_up;
    MNEMON_ASSIGN_OR_RETURN(const auto calls, RunLoad(port, load));
    std::vector<double> took;
    for (const CallRecord& call : calls) {
      if (call.ok()) took.push_back(call.took().count());
    }
    const double longer = shape.deadline / 3 / std::max(Median(took), 1e-6);
    tokens = static_cast<int32_t>(std::clamp(tokens * longer, 4.0, 1024.0));
  }
  return tokens;
}

void NoteEnds(const std::vector<CallRecord>& records, const std::string& load,
              BarResults& results) {
  std::map<std::string, double> ends;
  std::vector<double> refused, retry;
  for (const CallRecord& call : records) {
    ++ends[call.outcome()];
    if (call.reason().empty()) continue;
    refused.push_back(call.took().count());
    const auto after = GetErrorDetail(call.trace.status)->retry_after;
    if (after) retry.push_back(Seconds(*after).count());
  }
  for (const auto& [how, count] : ends) {
    results.Note(StrCat(load, ": calls ended ", how), count, "");
  }
  results.Note(StrCat(load, ": refusals seen by clients p99"), P99(refused) * 1e3,
               "ms");
  results.Note(StrCat(load, ": the longest of them"),
               refused.empty() ? 0 : std::ranges::max(refused) * 1e3, "ms");
  results.Note(StrCat(load, ": RetryInfo median"), Median(retry), "s");
}

}  // namespace

absl::Status RunOverload(const ScenarioOptions& options, BarResults& results) {
  const OverloadShape shape = options.quick ? kOverloadQuick : kOverloadFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model, Checkpoint(options, "causal", "S"));
  MNEMON_ASSIGN_OR_RETURN(const auto server,
                          StartServer(options, {"--checkpoint", "m=" + model,
                                                "--running", StrCat(shape.sessions),
                                                "--threads", StrCat(StepThreads())}));
  MNEMON_ASSIGN_OR_RETURN(const int32_t tokens, TokensPerCall(server->port(), shape));
  results.Note("tokens of a call", tokens, "");
  client::LoadOptions load = LoadOf("m", kOverloadPrompt, tokens);
  load.max_in_flight = kOverloadInFlight;
  load.seconds = shape.warm_up + shape.measured;
  load.deadline = std::chrono::ceil<std::chrono::milliseconds>(Seconds(shape.deadline));

  // Machines change their speed: in each turn a load is compared with the mean of the
  // closed loops before and after it; the median of the turns counts.
  const auto closed_loop = [&]() -> absl::StatusOr<double> {
    client::LoadOptions closed = load;
    closed.concurrency = shape.sessions;
    MNEMON_ASSIGN_OR_RETURN(const auto calls, RunLoad(server->port(), closed));
    const double rate = CompletedPerSecond(calls, Measured(BeginOf(calls), shape));
    if (rate > 0) return rate;
    return Annotated(calls[0].trace.status,
                     "no call ended OK in the closed loop; the first");
  };
  MNEMON_ASSIGN_OR_RETURN(double capacity, closed_loop());
  for (const int factor : {3, 10}) {
    const std::string times = StrCat(factor, "x");
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server->Metrics());
    std::vector<CallRecord> all;
    std::vector<double> shares;
    for (int turn = 1; turn <= shape.turns; ++turn) {
      client::LoadOptions open = load;
      open.rate = factor * capacity;
      MNEMON_ASSIGN_OR_RETURN(auto records, RunLoad(server->port(), open));
      const double goodput =
          CompletedPerSecond(records, Measured(BeginOf(records), shape));
      const double capacity_before = capacity;
      MNEMON_ASSIGN_OR_RETURN(capacity, closed_loop());
      const std::string name = StrCat(times, ", turn ", turn);
      results.Note(name + ": capacity before", capacity_before, "calls/s");
      results.Note(name + ": goodput", goodput, "calls/s");
      results.Note(name + ": capacity after", capacity, "calls/s");
      shares.push_back(2 * goodput / (capacity_before + capacity));
      std::move(records.begin(), records.end(), std::back_inserter(all));
    }
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server->Metrics());
    results.ShareAtLeast(StrCat(times, ": goodput, share of capacity"), Median(shares),
                         0.9);
    const HistogramPage refused = Since(RefusalsOf(before), RefusalsOf(after));
    results.Note(StrCat(times, ": refusals"), refused.count, "");
    results.TimeAtMost(StrCat(times, ": refusals p99, server's time"),
                       refused.Quantile(0.99) * 1e3, 50, "ms");
    NoteEnds(all, times, results);
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
