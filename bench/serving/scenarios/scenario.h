// SPDX-License-Identifier: MIT
// The scenarios of mnemon-scenarios, each against a server that it starts and ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/serving/bar_results.h"
#include "bench/serving/test_server.h"

namespace mnemon::serving {

struct ScenarioOptions {
  std::string server_binary;
  std::string bench_binary;               // mnemon-bench, which makes checkpoints
  std::string directory;                  // of checkpoints, logs and ports
  std::vector<std::string> server_flags;  // after the scenario's own
  bool quick = false;                     // shorter turns, smaller loads
  // Only for `wire` and `soak`.
  std::vector<std::string> attacks;  // names; empty: all
  double seconds = 0;                // per attack, or of the soak; 0: the default
};

// Fills `results`. An error if the scenario could not be run, not if a bar was missed.
using Scenario = absl::Status (*)(const ScenarioOptions& options, BarResults& results);

absl::Status RunOverload(const ScenarioOptions& options, BarResults& results);
absl::Status RunRetry(const ScenarioOptions& options, BarResults& results);
absl::Status RunIdle(const ScenarioOptions& options, BarResults& results);
absl::Status RunTwoModels(const ScenarioOptions& options, BarResults& results);
absl::Status RunManySessions(const ScenarioOptions& options, BarResults& results);
absl::Status RunSlowReaders(const ScenarioOptions& options, BarResults& results);
absl::Status RunCpu(const ScenarioOptions& options, BarResults& results);
absl::Status RunWire(const ScenarioOptions& options, BarResults& results);
absl::Status RunSoak(const ScenarioOptions& options, BarResults& results);
absl::Status RunScale(const ScenarioOptions& options, BarResults& results);
absl::Status RunDurability(const ScenarioOptions& options, BarResults& results);
absl::Status RunRestore(const ScenarioOptions& options, BarResults& results);
absl::Status RunFork(const ScenarioOptions& options, BarResults& results);
absl::Status RunDemotion(const ScenarioOptions& options, BarResults& results);
absl::Status RunRecovery(const ScenarioOptions& options, BarResults& results);
absl::Status RunBeyondMemory(const ScenarioOptions& options, BarResults& results);
absl::Status RunCrowd(const ScenarioOptions& options, BarResults& results);

// Path of the checkpoint of a drawn model, made once per directory. `set`: fields of
// config.json, KEY=VALUE.
absl::StatusOr<std::string> Checkpoint(const ScenarioOptions& options,
                                       const std::string& architecture,
                                       const std::string& size,
                                       const std::vector<std::string>& set = {});

// A server with `flags`, followed by those of the user.
absl::StatusOr<std::unique_ptr<TestServer>> StartServer(const ScenarioOptions& options,
                                                        std::vector<std::string> flags,
                                                        const StartOptions& start = {});
// SIGTERM. DEADLINE_EXCEEDED if it has not ended with 0 five minutes later.
absl::Status EndServer(TestServer& server);

}  // namespace mnemon::serving
