// SPDX-License-Identifier: MIT
// Callers that hold unused resources: streams that nobody reads, then Score callers
// that send nothing, as many as the server runs at once. Others must be served within
// the idle limit.
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int kIdleCallers = 64;  // as many as calls run at once
constexpr int kOthers = 16;       // that want to be served
constexpr char kFlag[] = "--idle-timeout";
constexpr char kIdleStalled[] = "mnemon_requests_stalled";
constexpr double kMargin = 1;  // seconds, for the call itself

// The maximum of stalled calls in the metrics, and the time until others are served.
struct Served {
  double stalled = 0;
  double served = 0;  // seconds until the last of the others ended
  int64_t not_served = 0;
};

absl::Status WatchOthers(const TestServer& server, Connections& connections,
                         double patience, Served& watched) {
  Calls others;
  const TimePoint begin = SteadyClock::now();
  for (int i = 0; i < kOthers; ++i) {
    others.Start(connections.at(static_cast<size_t>(i)),
                 MakeRequest("m", 4, 8, static_cast<uint64_t>(i)),
                 {.deadline = Seconds(patience)});
  }
  do {
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server.Metrics());
    watched.stalled = std::max(watched.stalled, page.Sum(kIdleStalled));
  } while (!others.Wait(Seconds(0.1)));
  for (const CallRecord& call : others.Take()) {
    watched.not_served += call.ok() ? 0 : 1;
    watched.served = std::max(watched.served, Seconds(call.trace.end - begin).count());
  }
  return absl::OkStatus();
}

void HoldAgainstBars(const std::string& who, const Served& watched, double limit,
                     BarResults& results) {
  results.TimeAtMost(StrCat(who, ": time until others were served"), watched.served,
                     limit + kMargin, "s");
  results.Exactly(StrCat(who, ": others that were not served"),
                  static_cast<double>(watched.not_served), 0, "");
  results.ShareAtLeast(StrCat(who, ": stalled calls in the metrics, share"),
                       watched.stalled / kIdleCallers, 0.9);
}

// Waits until the server makes no more tokens for any of the streams.
absl::Status WaitForStop(const TestServer& server, Served& watched) {
  double before = -1;
  for (int quiet = 0, looks = 0; quiet < 3 && looks < 40; ++looks) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage page, server.Metrics());
    const double now = page.Sum("mnemon_generation_tokens_total");
    watched.stalled = std::max(watched.stalled, page.Sum(kIdleStalled));
    quiet = now == before ? quiet + 1 : 0;
    before = now;
  }
  return absl::OkStatus();
}

absl::Status StoppedReaders(const TestServer& server, Connections& others, double limit,
                            double patience, BarResults& results) {
  Connections connections(server.port(), kIdleCallers, {.small_window = true});
  Calls readers;
  for (int i = 0; i < kIdleCallers; ++i) {
    v1::GenerateRequest request = MakeRequest("m", 4, 60000, static_cast<uint64_t>(i));
    // Fills windows with fewer tokens.
    request.mutable_output()->set_top_candidate_count(20);
    readers.Start(connections.at(static_cast<size_t>(i)), request, {.read_at_most = 4});
  }
  Served watched;
  MNEMON_RETURN_IF_ERROR(WaitForStop(server, watched));
  MNEMON_RETURN_IF_ERROR(WatchOthers(server, others, patience, watched));
  results.Note("stopped readers: messages read",
               static_cast<double>(readers.messages()), "");
  HoldAgainstBars("stopped readers", watched, limit, results);
  return absl::OkStatus();
}

absl::Status SilentScoreCallers(const TestServer& server, Connections& others,
                                double limit, double patience, BarResults& results) {
  Connections connections(server.port(), 4);
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::ScoreRequest, v1::ScoreResponse>> call;
  };
  std::vector<std::unique_ptr<Stream>> silent;
  for (int i = 0; i < kIdleCallers; ++i) {
    auto stream = std::make_unique<Stream>();
    stream->call =
        connections.at(static_cast<size_t>(i)).generation->Score(&stream->context);
    v1::ScoreRequest open, part;
    open.mutable_open()->set_model("models/m");
    for (int32_t token = 0; token < 4; ++token) {
      part.mutable_part()->mutable_tokens()->add_ids(token);
    }
    stream->call->Write(open);
    stream->call->Write(part);
    silent.push_back(std::move(stream));
  }
  // An answer to each shows that they run.
  for (const auto& stream : silent) {
    v1::ScoreResponse message;
    stream->call->Read(&message);
  }
  Served watched;
  // That a call waits for its caller becomes visible shortly after its answer.
  absl::Status status = WaitForStop(server, watched);
  if (status.ok()) status = WatchOthers(server, others, patience, watched);
  for (const auto& stream : silent) {
    stream->context.TryCancel();
    for (v1::ScoreResponse message; stream->call->Read(&message);) continue;
    stream->call->Finish();
  }
  MNEMON_RETURN_IF_ERROR(status);
  HoldAgainstBars("silent Score callers", watched, limit, results);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunIdle(const ScenarioOptions& options, BarResults& results) {
  const double limit = options.quick ? 1 : 30;
  const double patience = results.Patience(options.quick ? 4 : 3 * limit);
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  std::vector<std::string> flags = {"--checkpoint", "m=" + model, "--running",
                                    StrCat(kIdleCallers)};
  MNEMON_ASSIGN_OR_RETURN(const bool limits,
                          TakesFlag(options.server_binary, kFlag, options.directory));
  if (limits) flags.insert(flags.end(), {kFlag, StrCat(limit)});
  results.Note(StrCat("the server takes ", kFlag), limits ? 1 : 0, "");
  MNEMON_ASSIGN_OR_RETURN(const auto server, StartServer(options, flags));
  Connections others(server->port(), 2);
  MNEMON_RETURN_IF_ERROR(StoppedReaders(*server, others, limit, patience, results));
  return SilentScoreCallers(*server, others, limit, patience, results);
}

}  // namespace mnemon::serving
