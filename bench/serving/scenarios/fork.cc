// SPDX-License-Identifier: MIT
// Time of a fork by the length of the history, compared with another call that changes
// nothing.
#include <map>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int64_t kTokens[] = {100, 1'000, 10'000, 50'000};
constexpr double kBar = 50;  // microseconds beyond the other call

std::string ParentOf(int64_t tokens) { return StrCat("of", tokens); }

// Mean time of a method as measured by the server.
double ServerMicroseconds(const MetricsPage& before, const MetricsPage& after,
                          const std::string& method) {
  const std::string name = "grpc_server_call_duration_seconds";
  const std::vector<std::string> labels = {
      StrCat("grpc_method=\"mnemon.v1.Sessions/", method, "\"")};
  return 1e6 *
         Since(before.Histogram(name, labels), after.Histogram(name, labels)).mean();
}

}  // namespace

absl::Status RunFork(const ScenarioOptions& options, BarResults& results) {
  const int64_t forks = options.quick ? 50 : 1000;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  MNEMON_ASSIGN_OR_RETURN(const auto server,
                          StartServer(options, {"--checkpoint", "m=" + model}));
  const auto client = ConnectClient(server->port());
  for (const int64_t tokens : kTokens) {
    MNEMON_RETURN_IF_ERROR(client->CreateSession(ParentOf(tokens), "m").status());
    MNEMON_RETURN_IF_ERROR(Turn(*client, ParentOf(tokens), tokens - 1, 1, 1).status());
  }
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server->Metrics());
  // In turn, so that a temporary disturbance of the machine affects all lengths.
  std::map<int64_t, std::vector<double>> fork, get;  // seconds, by tokens
  for (int64_t i = 0; i < forks; ++i) {
    for (const int64_t tokens : kTokens) {
      MNEMON_ASSIGN_OR_RETURN(
          const auto forked, Timed(1, [&](int64_t) {
            return client->ForkSession({.parent = ParentOf(tokens), .id = "b"})
                .status();
          }));
      MNEMON_ASSIGN_OR_RETURN(const auto got, Timed(1, [&](int64_t) {
                                return client->GetSession(ParentOf(tokens)).status();
                              }));
      MNEMON_RETURN_IF_ERROR(client->DeleteSession("b"));
      fork[tokens].push_back(forked[0]);
      get[tokens].push_back(got[0]);
    }
  }
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server->Metrics());
  results.Note("GetSession, server's time, mean",
               ServerMicroseconds(before, after, "GetSession"), "us");
  results.Note("ForkSession, server's time, mean",
               ServerMicroseconds(before, after, "ForkSession"), "us");
  for (const int64_t tokens : kTokens) {
    const std::string what = StrCat(tokens, " tokens: ");
    results.Note(what + "GetSession, median", Median(get[tokens]) * 1e6, "us");
    results.Note(what + "ForkSession, median", Median(fork[tokens]) * 1e6, "us");
    results.Note(what + "ForkSession, p99", P99(fork[tokens]) * 1e6, "us");
    results.TimeAtMost(what + "ForkSession, median, more than GetSession",
                       (Median(fork[tokens]) - Median(get[tokens])) * 1e6, kBar, "us");
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
