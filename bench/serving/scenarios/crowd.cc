// SPDX-License-Identifier: MIT
// As many empty sessions as a server takes: calls without a session keep their speed,
// and the server its memory.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct CrowdShape {
  double measured;  // seconds
  int rounds;
};
constexpr CrowdShape kCrowdFull = {8, 3};
constexpr CrowdShape kCrowdQuick = {2, 1};

constexpr int64_t kMemory = int64_t{140} << 20;
constexpr int kMakers = 8;
constexpr int kCrowdCallers = 8;
// A creator stops after this many refusals.
constexpr int kCrowdRefusals = 20;

}  // namespace

absl::Status RunCrowd(const ScenarioOptions& options, BarResults& results) {
  const CrowdShape& shape = options.quick ? kCrowdQuick : kCrowdFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "XS"));
  const std::vector<std::string> flags = {"--checkpoint", "m=" + model, "--memory",
                                          StrCat(kMemory)};
  // A second server stays empty for comparison, since machines change their speed.
  MNEMON_ASSIGN_OR_RETURN(const auto empty, StartServer(options, flags));
  MNEMON_ASSIGN_OR_RETURN(const auto crowded, StartServer(options, flags));
  std::atomic<int64_t> made{0};
  {
    Clients clients(crowded->port(), kMakers);
    std::vector<std::thread> makers;
    for (int i = 0; i < kMakers; ++i) {
      makers.emplace_back([&, i] {
        client::Client& client = clients.at(static_cast<size_t>(i));
        for (int64_t number = 0, refused = 0; refused < kCrowdRefusals; ++number) {
          if (client.CreateSession(StrCat("s", i, "-", number), "m").ok()) {
            ++made;
          } else {
            ++refused;
          }
        }
      });
    }
    for (std::thread& maker : makers) maker.join();
  }
  results.Note("empty sessions", static_cast<double>(made), "");
  const auto goodput = [&](TestServer& server,
                           int64_t& failed) -> absl::StatusOr<double> {
    client::LoadOptions load = LoadOf("m", 16, 32);
    load.concurrency = kCrowdCallers;
    load.seconds = shape.measured;
    MNEMON_ASSIGN_OR_RETURN(const auto calls, RunLoad(server.port(), load));
    failed += std::count_if(calls.begin(), calls.end(),
                            [](const CallRecord& call) { return !call.ok(); });
    return CompletedPerSecond(calls, {BeginOf(calls), SteadyClock::now()});
  };
  int64_t failed = 0;
  std::vector<double> shares;
  for (int round = 0; round < shape.rounds; ++round) {
    MNEMON_ASSIGN_OR_RETURN(const double before, goodput(*empty, failed));
    MNEMON_ASSIGN_OR_RETURN(const double beside, goodput(*crowded, failed));
    MNEMON_ASSIGN_OR_RETURN(const double after, goodput(*empty, failed));
    shares.push_back(2 * beside / (before + after));
  }
  results.Exactly("calls without a session that failed", static_cast<double>(failed), 0,
                  "");
  results.ShareAtLeast("goodput of calls without a session, share of an empty server's",
                       Median(shares), 0.9);
  results.AtMost("resident, share of --memory",
                 UseOf(crowded->pid()).megabytes * 1e6 / kMemory, 1, "");
  MNEMON_RETURN_IF_ERROR(EndServer(*empty));
  return EndServer(*crowded);
}

}  // namespace mnemon::serving
