// SPDX-License-Identifier: MIT
// How long a fork takes, by the length of the history, beside another call that changes
// nothing.
#include <string>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr int64_t kTokens[] = {100, 1'000, 10'000, 50'000};
constexpr double kBar = 50;  // microseconds beyond the other call

// The mean time of a method, as the server measures it.
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
  Connection connection(server->port(), {});
  for (const int64_t tokens : kTokens) {
    const std::string parent = StrCat("of", tokens);
    MNEMON_RETURN_IF_ERROR(CreateSession(connection, parent, "m"));
    MNEMON_RETURN_IF_ERROR(Turn(connection, parent, tokens - 1, 1, 1).status());
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, server->Metrics());
    std::vector<double> fork, get;
    for (int64_t i = 0; i < forks; ++i) {
      const std::string child = StrCat("child", i);
      MNEMON_ASSIGN_OR_RETURN(const auto forked, Timed(1, [&](int64_t) {
                                return ForkSession(connection, parent, child);
                              }));
      MNEMON_ASSIGN_OR_RETURN(const auto got, Timed(1, [&](int64_t) {
                                return GetSession(connection, child);
                              }));
      fork.push_back(forked[0]);
      get.push_back(got[0]);
    }
    MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, server->Metrics());
    for (int64_t i = 0; i < forks; ++i) {
      MNEMON_RETURN_IF_ERROR(DeleteSession(connection, StrCat("child", i)));
    }
    const std::string what = StrCat(tokens, " tokens: ");
    results.Note(what + "GetSession, median", Median(get) * 1e6, "us");
    results.Note(what + "ForkSession, median", Median(fork) * 1e6, "us");
    results.Note(what + "ForkSession, p99", P99(fork) * 1e6, "us");
    results.Note(what + "GetSession, server's time, mean",
                 ServerMicroseconds(before, after, "GetSession"), "us");
    results.Note(what + "ForkSession, server's time, mean",
                 ServerMicroseconds(before, after, "ForkSession"), "us");
    results.AtMost(what + "ForkSession, median, more than GetSession",
                   (Median(fork) - Median(get)) * 1e6, kBar, "us");
  }
  return absl::OkStatus();
}

}  // namespace mnemon::serving
