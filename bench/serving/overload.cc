// SPDX-License-Identifier: MIT
// More calls than the server can serve: how many still end in time, and how soon the
// others are refused.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct OverloadShape {
  int sessions;
  double deadline;  // of a client, seconds
  double warm_up;   // seconds
  double measured;  // seconds
  int turns;
};

constexpr OverloadShape kOverloadFull = {64, 6, 4, 10, 3};
constexpr OverloadShape kOverloadQuick = {16, 2, 2, 4, 1};

constexpr const char* kOverloadRefusals[] = {"RESOURCE_EXHAUSTED", "UNAVAILABLE"};

// A core is left for the calls themselves and for those who make them: steps on all
// cores would lose to the generator what on another machine it would not take.
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

// What is left of the loop's time once the warm-up is over; ends before the last calls,
// which meet no others, do.
Interval Measured(TimePoint begin, const OverloadShape& shape) {
  const auto at = [&](double seconds) {
    return begin + std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
  };
  return {at(shape.warm_up), at(shape.warm_up + shape.measured)};
}

// Tokens of a call that takes a third of the deadline when the server is just busy: a
// call that waits for many others then comes too late, on a machine of any speed. The
// second try is nearly as long, so that the prompt's part of the time is right.
int64_t TokensPerCall(Connections& connections, const OverloadShape& shape) {
  int64_t tokens = 8;
  for (int tried = 0; tried < 2; ++tried) {
    const RequestOf request = [tokens](int64_t number) {
      return MakeRequest("m", 16, tokens, static_cast<uint64_t>(number));
    };
    std::vector<double> took;
    for (const CallRecord& call :
         RunClosedLoop(connections, shape.sessions, request, {}, shape.warm_up)) {
      if (call.ok()) took.push_back(call.took().count());
    }
    const double longer = shape.deadline / 3 / std::max(Median(took), 1e-6);
    tokens = std::clamp(static_cast<int64_t>(static_cast<double>(tokens) * longer),
                        int64_t{4}, int64_t{1024});
  }
  return tokens;
}

void NoteEnds(const std::vector<CallRecord>& records, const std::string& load,
              BarResults& results) {
  std::map<std::string, double> ends;
  std::vector<double> refused, retry;
  for (const CallRecord& call : records) {
    ++ends[call.ok()                   ? "OK"
           : call.error.reason.empty() ? StrCat("code ", static_cast<int>(call.code))
                                       : call.error.reason];
    if (!call.ok() && !call.error.reason.empty()) {
      refused.push_back(call.took().count());
      if (call.error.has_retry) retry.push_back(call.error.retry_seconds);
    }
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
  Connections connections(server->port(), 8);
  const CallOptions call = {.deadline = Seconds(shape.deadline)};
  const int64_t tokens = TokensPerCall(connections, shape);
  results.Note("tokens of a call", static_cast<double>(tokens), "");
  const RequestOf request = [&](int64_t number) {
    return MakeRequest("m", 16, tokens, static_cast<uint64_t>(number));
  };
  const double duration = shape.warm_up + shape.measured;

  // Machines change their speed: in each turn a load is compared with the mean of the
  // closed loops before and after it, and the median of the turns counts.
  const auto closed_loop = [&]() -> absl::StatusOr<double> {
    const TimePoint begin = SteadyClock::now();
    const std::vector<CallRecord> closed =
        RunClosedLoop(connections, shape.sessions, request, call, duration);
    const double rate = CompletedPerSecond(closed, Measured(begin, shape));
    if (rate > 0) return rate;
    return absl::InternalError("no call ended OK in the closed loop; the first: " +
                               (closed.empty() ? "" : closed[0].message));
  };
  MNEMON_ASSIGN_OR_RETURN(double capacity, closed_loop());
  for (const int factor : {3, 10}) {
    const std::string load = StrCat(factor, "x");
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server->Metrics());
    std::vector<CallRecord> all;
    std::vector<double> shares;
    for (int turn = 1; turn <= shape.turns; ++turn) {
      const TimePoint begin = SteadyClock::now();
      std::vector<CallRecord> records =
          RunOpenLoop(connections, factor * capacity, request, call, duration);
      const double goodput = CompletedPerSecond(records, Measured(begin, shape));
      const double capacity_before = capacity;
      MNEMON_ASSIGN_OR_RETURN(capacity, closed_loop());
      const std::string name = StrCat(load, ", turn ", turn);
      results.Note(name + ": capacity before", capacity_before, "calls/s");
      results.Note(name + ": goodput", goodput, "calls/s");
      results.Note(name + ": capacity after", capacity, "calls/s");
      shares.push_back(2 * goodput / (capacity_before + capacity));
      std::move(records.begin(), records.end(), std::back_inserter(all));
    }
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server->Metrics());
    results.ShareAtLeast(StrCat(load, ": goodput, share of capacity"), Median(shares),
                         0.9);
    const HistogramPage refused = Since(RefusalsOf(before), RefusalsOf(after));
    results.Note(StrCat(load, ": refusals"), refused.count, "");
    results.TimeAtMost(StrCat(load, ": refusals p99, server's time"),
                       refused.Quantile(0.99) * 1e3, 50, "ms");
    NoteEnds(all, load, results);
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
