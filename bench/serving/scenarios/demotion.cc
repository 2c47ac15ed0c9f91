// SPDX-License-Identifier: MIT
// Running streams beside turns on other sessions whose states either stay in memory, or
// are written to the store and evicted.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/calls.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/session_calls.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

struct DemotionShape {
  int64_t sessions;  // beside the streams
  int rounds;
  double window;  // seconds
  double bar;     // milliseconds; with few gaps, p99 is nearly the maximum
};
constexpr DemotionShape kDemotionFull = {400, 9, 4, 1};
constexpr DemotionShape kDemotionQuick = {80, 3, 0.7, 5};

// A step of so many streams takes longer than the time during which tokens share a
// message.
constexpr int kDemotionStreams = 16;
constexpr int64_t kDemotionPromptTokens = 8;
constexpr double kTurnsPerSecond = 40;
// fast_weights S: the running states with their reserves, and some idle ones.
constexpr char kDemotionFewStates[] = "33554432";  // bytes: 85

// Streams without sessions on a server, beside sessions of others.
class Side {
 public:
  static absl::StatusOr<std::unique_ptr<Side>> Start(
      const ScenarioOptions& options, const DemotionShape& shape,
      const std::vector<std::string>& flags) {
    auto side = std::unique_ptr<Side>(new Side(shape));
    MNEMON_ASSIGN_OR_RETURN(side->server_, StartServer(options, flags));
    side->connections_ = std::make_unique<Connections>(side->server_->port(), 4);
    Clients clients(side->server_->port(), 4);
    MNEMON_RETURN_IF_ERROR(
        MakeSessions(clients, "m", 0, shape.sessions, kDemotionPromptTokens));
    return side;
  }

  // Seconds between neighbouring tokens of the streams, while sessions make turns one
  // at a time.
  absl::StatusOr<std::vector<double>> Gaps() {
    Calls streams;
    for (int i = 0; i < kDemotionStreams; ++i) {
      streams.Start(
          connections_->at(static_cast<size_t>(i)),
          MakeRequest("m", kDemotionPromptTokens, kEndless, static_cast<uint64_t>(i)),
          {});
    }
    Pass(0.3);
    absl::Status turned;
    std::atomic<bool> ends{false};
    std::thread turns([&] {
      const auto client = ConnectClient(server_->port());
      TimePoint next = SteadyClock::now();
      for (; turned.ok() && !ends; ++turn_) {
        turned =
            Turn(*client, IdOf(turn_ % shape_.sessions), kDemotionPromptTokens, 1, 1)
                .status();
        next += std::chrono::duration_cast<SteadyClock::duration>(
            Seconds(1 / kTurnsPerSecond));
        std::this_thread::sleep_until(next);
      }
    });
    Pass(0.2);
    const Interval measured = Pass(shape_.window);
    ends = true;
    turns.join();
    const int64_t running = streams.running();
    streams.CancelAll();
    if (!streams.Wait(kHangs)) return absl::InternalError("a stream does not end");
    MNEMON_RETURN_IF_ERROR(turned);
    const std::vector<CallRecord> records = streams.Take();
    if (running != kDemotionStreams) {
      return absl::InternalError(
          StrCat("a stream ended: ", records.at(0).trace.status.message()));
    }
    return GapsIn(records, measured);
  }

  absl::StatusOr<MetricsPage> Metrics() const { return server_->Metrics(); }
  int64_t turns() const { return turn_; }

 private:
  explicit Side(const DemotionShape& shape) : shape_(shape) {}

  const DemotionShape& shape_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Connections> connections_;
  int64_t turn_ = 0;
};

double Greatest(const std::vector<double>& samples) {
  return samples.empty() ? 0 : *std::max_element(samples.begin(), samples.end());
}

}  // namespace

absl::Status RunDemotion(const ScenarioOptions& options, BarResults& results) {
  const DemotionShape& shape = options.quick ? kDemotionQuick : kDemotionFull;
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", "S"));
  const DataFolder data(options.directory + "/data-demotion");
  const std::vector<std::string> flags = {"--checkpoint", "m=" + model,
                                          "--max-tokens", StrCat(kEndless),
                                          "--running",    "24"};
  MNEMON_ASSIGN_OR_RETURN(const auto without, Side::Start(options, shape, flags));
  std::vector<std::string> durable = flags;
  durable.insert(durable.end(),
                 {"--data-dir", data.path(), "--state-bytes", kDemotionFewStates});
  MNEMON_ASSIGN_OR_RETURN(const auto with, Side::Start(options, shape, durable));

  MNEMON_ASSIGN_OR_RETURN(const MetricsPage before, with->Metrics());
  const int64_t turns = with->turns();
  std::vector<double> p99_without, p99_with, moved, most_without, most_with;
  for (int round = 0; round < shape.rounds; ++round) {
    std::array<std::vector<double>, 2> gaps;
    for (const int turn : {round % 2, 1 - round % 2}) {
      Side& side = turn == 0 ? *without : *with;
      MNEMON_ASSIGN_OR_RETURN(gaps[static_cast<size_t>(turn)], side.Gaps());
    }
    p99_without.push_back(P99(gaps[0]));
    p99_with.push_back(P99(gaps[1]));
    moved.push_back(p99_with.back() - p99_without.back());
    most_without.push_back(Greatest(gaps[0]));
    most_with.push_back(Greatest(gaps[1]));
  }
  MNEMON_ASSIGN_OR_RETURN(const MetricsPage after, with->Metrics());
  const auto grown = [&](const std::string& name) {
    return after.Sum(name) - before.Sum(name);
  };
  const auto made = static_cast<double>(with->turns() - turns);
  results.Note("turns of other sessions", made, "");
  results.Note("snapshots written meanwhile", grown("mnemon_snapshots_total"), "");
  // Otherwise states were not evicted, and nothing was measured.
  results.ShareAtLeast(
      "turns whose state came from the disk",
      std::min(1.0, grown("mnemon_state_restore_duration_seconds_count") / made), 0.5);
  results.Note("without: p99 of a token gap", Median(p99_without) * 1e3, "ms");
  results.Note("without: the longest, median of the rounds", Median(most_without) * 1e3,
               "ms");
  results.Note("with: p99 of a token gap", Median(p99_with) * 1e3, "ms");
  results.Note("with: the longest, median of the rounds", Median(most_with) * 1e3,
               "ms");
  results.TimeAtMost("p99 of a token gap, more than without", Median(moved) * 1e3,
                     shape.bar, "ms");
  return absl::OkStatus();
}

}  // namespace mnemon::serving
