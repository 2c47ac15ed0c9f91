// SPDX-License-Identifier: MIT
// Cost of durability: callers in a closed loop, each with its own session, on three
// servers with one level each, one of which works at a time.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "bench/serving/data_folder.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/traffic.h"

namespace mnemon::serving {
namespace {

constexpr const char* kLevels[] = {"none", "turn", "always"};
constexpr size_t kLevelCount = std::size(kLevels);

struct DurabilityShape {
  int rounds;
  double window;  // seconds of each level in a round
  double rest;    // seconds before it, for the last server's writes
  double turn;    // least share of the speed without durability
  double always;
};
constexpr DurabilityShape kDurabilityFull = {9, 4, 1.5, 0.87, 0.77};
constexpr DurabilityShape kDurabilityQuick = {3, 2, 0.3, 0.75, 0.7};

constexpr int kDurabilityStreams = 64;
constexpr int32_t kDurabilityPromptTokens = 64;
constexpr int32_t kDurabilityNewTokens = 64;

struct Level {
  std::unique_ptr<DataFolder> data;
  std::unique_ptr<TestServer> server;
  std::vector<double> speeds;  // tokens per second of each window
};

absl::StatusOr<Level> StartLevel(const ScenarioOptions& options,
                                 const std::string& model, const std::string& name) {
  Level level;
  level.data = std::make_unique<DataFolder>(
      StrCat(options.directory, "/data-durability-", name));
  MNEMON_ASSIGN_OR_RETURN(
      level.server, StartServer(options, {"--checkpoint", "m=" + model, "--data-dir",
                                          level.data->path(), "--durability", name}));
  return level;
}

// Tokens that arrive per second while each caller makes turns one at a time, each on
// its own session.
absl::StatusOr<double> Speed(const TestServer& server, double seconds) {
  client::LoadOptions load = LoadOf("m", kDurabilityPromptTokens, kDurabilityNewTokens);
  load.concurrency = load.sessions = kDurabilityStreams;
  load.seconds = 1.25 * seconds;
  MNEMON_ASSIGN_OR_RETURN(const auto calls, RunLoad(server.port(), load));
  for (const CallRecord& call : calls) {
    if (!call.ok()) return Annotated(call.trace.status, "a call failed");
  }
  const auto at = [&](double after) {
    return BeginOf(calls) +
           std::chrono::duration_cast<SteadyClock::duration>(Seconds(after));
  };
  const double speed = TokensPerSecond(calls, {at(0.25 * seconds), at(1.25 * seconds)});
  if (speed > 0) return speed;
  return absl::InternalError("no token came: the machine is too busy to measure");
}

absl::Status MeasureDurability(const ScenarioOptions& options,
                               const DurabilityShape& shape, const std::string& size,
                               BarResults& results) {
  MNEMON_ASSIGN_OR_RETURN(const std::string model,
                          Checkpoint(options, "fast_weights", size));
  std::array<Level, kLevelCount> levels;
  for (size_t i = 0; i < kLevelCount; ++i) {
    MNEMON_ASSIGN_OR_RETURN(levels[i], StartLevel(options, model, kLevels[i]));
    MNEMON_RETURN_IF_ERROR(
        Speed(*levels[i].server, shape.window / 2).status());  // warm
  }
  for (int round = 0; round < shape.rounds; ++round) {
    // In reverse every second round, so that a machine that becomes slower favours
    // none.
    for (size_t turn = 0; turn < kLevelCount; ++turn) {
      const size_t forward = (turn + static_cast<size_t>(round / 2)) % kLevelCount;
      Level& level = levels[round % 2 == 0 ? forward : kLevelCount - 1 - forward];
      Pass(shape.rest);
      MNEMON_ASSIGN_OR_RETURN(const double speed, Speed(*level.server, shape.window));
      level.speeds.push_back(speed);
    }
  }
  const Level& none = levels[0];
  for (size_t i = 0; i < kLevelCount; ++i) {
    results.Note(StrCat(size, ", ", kLevels[i], ": speed"), Median(levels[i].speeds),
                 "tokens/s");
  }
  for (size_t i = 1; i < kLevelCount; ++i) {
    // Compared within each round, since the machine's speed changes between rounds.
    std::vector<double> shares;
    for (size_t round = 0; round < none.speeds.size(); ++round) {
      shares.push_back(levels[i].speeds[round] / none.speeds[round]);
    }
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    results.Note(StrCat(size, ", ", kLevels[i], ": least share of none"), *least, "");
    results.Note(StrCat(size, ", ", kLevels[i], ": greatest share of none"), *most, "");
    results.ShareAtLeast(StrCat(size, ", ", kLevels[i], ": share of none"),
                         Median(shares), i == 1 ? shape.turn : shape.always);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunDurability(const ScenarioOptions& options, BarResults& results) {
  const DurabilityShape& shape = options.quick ? kDurabilityQuick : kDurabilityFull;
  MNEMON_RETURN_IF_ERROR(MeasureDurability(options, shape, "XS", results));
  return options.quick ? absl::OkStatus()
                       : MeasureDurability(options, shape, "S", results);
}

}  // namespace mnemon::serving
