// SPDX-License-Identifier: MIT
// Parts of the scenario `wire`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/serving/process_use.h"
#include "bench/serving/scenarios/scenario.h"
#include "bench/serving/watch.h"
#include "bench/wire/attack.h"

namespace mnemon::serving {

// More than a call gets during any attack.
inline constexpr int64_t kEndlessTokens = 1 << 30;

// A warmed-up server, and its state at that time.
class Attacked {
 public:
  // `descriptors`: maximum; 0: as many as the system gives.
  static absl::StatusOr<std::unique_ptr<Attacked>> Start(const ScenarioOptions& options,
                                                         const std::string& name,
                                                         int descriptors,
                                                         const BarResults& results);

  TestServer& server() { return *server_; }
  // Plan for an attack on it, from now on for `seconds`.
  wire::AttackPlan PlanFor(double seconds) const;
  // Compares observations during an attack with the bars. `leaves_room`: see Attack.
  void CompareDuring(const Watched& watched, bool leaves_room, BarResults& results);
  // Checks the state afterwards: a new client's tokens, the resources of the process,
  // and its end.
  void CompareAfter(BarResults& results);

 private:
  explicit Attacked(std::string name) : name_(std::move(name)) {}
  bool Generates(double seconds) const;
  std::string What(const std::string& what) const { return name_ + ": " + what; }

  const std::string name_;
  std::unique_ptr<TestServer> server_;
  ProcessUse before_;
  double peak_megabytes_ = 0;
  std::vector<int32_t> tokens_;  // of the call made by new clients
};

// Notes what an attack has done, as figures without bars.
void NoteTally(const std::string& name, const wire::AttackTally& tally,
               BarResults& results);

// All attacks at once, beside eight streams that only want their tokens.
absl::Status AttackTogether(const ScenarioOptions& options, double seconds,
                            BarResults& results);
// Standard error that nobody reads.
absl::Status LeaveLogUnread(const ScenarioOptions& options, double seconds,
                            BarResults& results);

}  // namespace mnemon::serving
