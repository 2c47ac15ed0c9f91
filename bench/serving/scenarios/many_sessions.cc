// SPDX-License-Identifier: MIT
// Thousands of idle sessions beside hundreds of streams: times of short calls, and the
// effect of ending one very large session on the streams.
#include <atomic>
#include <string>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct ManySessionsShape {
  int resting;
  int streams;
  int rounds;
  double window;         // seconds of short calls
  double around;         // seconds: a window around the end of a session
  int64_t large_layers;  // of the model with the large session, and
  int64_t large_tokens;  // of that session
};

constexpr ManySessionsShape kManySessionsFull = {10'000, 256, 5, 4, 0.5, 256, 2048};
constexpr ManySessionsShape kManySessionsQuick = {1'000, 64, 3, 0.3, 0.25, 16, 512};

// Keys and values of one token in one layer, 256 wide.
constexpr int64_t kManySessionsTokenBytes = 2048;
constexpr std::chrono::milliseconds kBetweenShort{10};

// Seconds that calls of each kind took.
struct ShortCalls {
  std::vector<double> get, create, health;
  int64_t failed = 0;
};

ShortCalls RunShortCalls(Clients& clients, const ManySessionsShape& shape,
                         double seconds) {
  ShortCalls calls;
  const TimePoint end =
      SteadyClock::now() +
      std::chrono::duration_cast<SteadyClock::duration>(Seconds(seconds));
  std::atomic<int64_t> failed{0};
  const auto repeat = [&](std::vector<double>& took, const auto& call) {
    for (int number = 0; SteadyClock::now() < end; ++number) {
      const TimePoint begin = SteadyClock::now();
      if (!call(number).ok()) ++failed;
      took.push_back(Seconds(SteadyClock::now() - begin).count());
      std::this_thread::sleep_for(kBetweenShort);
    }
  };
  std::thread get([&] {
    repeat(calls.get, [&](int number) {
      return clients.at(0).GetSession(IdOf(number * 7919 % shape.resting)).status();
    });
  });
  std::thread create([&] {
    repeat(calls.create, [&](int number) {
      return clients.at(1).CreateSession(StrCat("short", number), "small").status();
    });
    for (size_t number = 0; number < calls.create.size(); ++number) {
      if (!clients.at(1).DeleteSession(StrCat("short", number)).ok()) ++failed;
    }
  });
  std::thread health([&] {
    repeat(calls.health, [&](int) { return clients.at(2).CheckHealth(""); });
  });
  get.join();
  create.join();
  health.join();
  calls.failed = failed;
  return calls;
}

absl::Status MeasureShortCalls(Clients& clients, const ManySessionsShape& shape,
                               BarResults& results) {
  std::vector<double> get, create, health;
  int64_t failed = 0;
  for (int round = 0; round < shape.rounds; ++round) {
    const ShortCalls calls = RunShortCalls(clients, shape, shape.window);
    get.push_back(P99(calls.get));
    create.push_back(P99(calls.create));
    health.push_back(P99(calls.health));
    failed += calls.failed;
  }
  results.TimeAtMost("GetSession p99", Median(get) * 1e3, 20, "ms");
  results.TimeAtMost("CreateSession p99", Median(create) * 1e3, 20, "ms");
  results.TimeAtMost("health p99", Median(health) * 1e3, 20, "ms");
  results.Exactly("short calls that failed", static_cast<double>(failed), 0, "");
  return absl::OkStatus();
}

void NoteServerTimes(const MetricsPage& before, const MetricsPage& after,
                     BarResults& results) {
  const std::string name = "grpc_server_call_duration_seconds";
  for (const char* method :
       {"mnemon.v1.Sessions/GetSession", "mnemon.v1.Sessions/CreateSession",
        "grpc.health.v1.Health/Check"}) {
    const std::vector<std::string> labels = {StrCat("grpc_method=\"", method, "\"")};
    const HistogramPage taken =
        Since(before.Histogram(name, labels), after.Histogram(name, labels));
    results.Note(StrCat(method, " p99, server's time"), taken.Quantile(0.99) * 1e3,
                 "ms");
  }
}

// Repeatedly ends a large session beside the streams.
absl::StatusOr<std::vector<std::pair<Interval, Interval>>> EndLargeSessions(
    Clients& clients, const ManySessionsShape& shape) {
  std::vector<std::pair<Interval, Interval>> windows;  // without and with an end
  for (int round = 0; round < shape.rounds; ++round) {
    MNEMON_RETURN_IF_ERROR(clients.at(0).CreateSession("large", "large").status());
    MNEMON_RETURN_IF_ERROR(
        Turn(clients.at(0), "large", shape.large_tokens, 1, 1).status());
    Pass(shape.around);
    const Interval without = Pass(shape.around);
    const TimePoint from = SteadyClock::now();
    MNEMON_RETURN_IF_ERROR(clients.at(0).DeleteSession("large"));
    Pass(std::max(0.0, shape.around - Seconds(SteadyClock::now() - from).count()));
    windows.push_back({without, {from, SteadyClock::now()}});
  }
  return windows;
}

}  // namespace

absl::Status RunManySessions(const ScenarioOptions& options, BarResults& results) {
  const ManySessionsShape shape =
      options.quick ? kManySessionsQuick : kManySessionsFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string small,
                          Checkpoint(options, "fast_weights", "XS"));
  MNEMON_ASSIGN_OR_RETURN(const std::string large,
                          Checkpoint(options, "causal", "XS",
                                     {"d_model=256", "heads=4", "d_ff=64",
                                      StrCat("layers=", shape.large_layers),
                                      StrCat("positions=", shape.large_tokens + 128)}));
  const int64_t large_bytes =
      shape.large_layers * shape.large_tokens * kManySessionsTokenBytes;
  MNEMON_ASSIGN_OR_RETURN(
      const auto server,
      StartServer(options,
                  {"--checkpoint", "small=" + small, "--checkpoint", "large=" + large,
                   "--running", StrCat(shape.streams + kCreators), "--state-bytes",
                   StrCat(2 * large_bytes), "--max-tokens", StrCat(kEndless)}));
  Clients clients(server->port(), 4);
  RunShortCalls(clients, shape, 0.1);  // connects
  const ShortCalls idle = RunShortCalls(clients, shape, shape.window);
  results.Note("idle server: CreateSession p99", P99(idle.create) * 1e3, "ms");
  results.Note("idle server: health p99", P99(idle.health) * 1e3, "ms");
  MNEMON_RETURN_IF_ERROR(MakeSessions(clients, "small", 0, shape.resting, 4));

  Connections connections(server->port(), 4);
  Calls streams;
  for (int i = 0; i < shape.streams; ++i) {
    streams.Start(connections.at(static_cast<size_t>(i)),
                  MakeRequest("small", 4, kEndless, static_cast<uint64_t>(i)), {});
  }
  Pass(shape.around);
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server->Metrics());
  MNEMON_RETURN_IF_ERROR(MeasureShortCalls(clients, shape, results));
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server->Metrics());
  NoteServerTimes(before, after, results);
  results.Note("sessions at rest", after.Sum("mnemon_sessions"), "");

  MNEMON_ASSIGN_OR_RETURN(const auto windows, EndLargeSessions(clients, shape));
  results.Exactly("streams that run", static_cast<double>(streams.running()),
                  shape.streams, "");
  streams.CancelAll();
  streams.Wait(kHangs);
  const std::vector<CallRecord> records = streams.Take();
  std::vector<double> control, moved;
  for (const auto& [without, with] : windows) {
    control.push_back(P99(GapsIn(records, without)));
    moved.push_back(P99(GapsIn(records, with)) - control.back());
  }
  results.Note("streams: p99 gap", Median(control) * 1e3, "ms");
  results.TimeAtMost(StrCat("a session of ", large_bytes >> 20,
                            " MiB ends: p99 gap, more than without"),
                     Median(moved) * 1e3, 10, "ms");
  return absl::OkStatus();
}

}  // namespace mnemon::serving
