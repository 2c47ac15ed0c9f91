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

// More than a call gets in the time of any attack.
inline constexpr int64_t kEndlessTokens = 1 << 30;

// A server that was warmed, and what it was then.
class Attacked {
 public:
  // `descriptors`: at most; 0: as many as the system gives.
  static absl::StatusOr<std::unique_ptr<Attacked>> Start(const ScenarioOptions& options,
                                                         const std::string& name,
                                                         int descriptors,
                                                         const BarResults& results);

  TestServer& server() { return *server_; }
  // What an attack on it sends, from now on for `seconds`.
  wire::AttackPlan PlanFor(double seconds) const;
  // Compares what was seen during an attack with the bars. `leaves_room`: of the
  // attack.
  void CompareDuring(const Watched& watched, bool leaves_room, BarResults& results);
  // Then what is left behind it: a new client's tokens, what the process has of the
  // machine, and its end.
  void CompareAfter(BarResults& results);

 private:
  explicit Attacked(std::string name) : name_(std::move(name)) {}
  bool Generates(double seconds) const;
  std::string What(const std::string& what) const { return name_ + ": " + what; }

  const std::string name_;
  std::unique_ptr<TestServer> server_;
  ProcessUse before_;
  double peak_megabytes_ = 0;
  std::vector<int32_t> tokens_;  // of the call that new clients make
};

// What an attack has done, as figures without bars.
void NoteTally(const std::string& name, const wire::AttackTally& tally,
               BarResults& results);

// All attacks at once, beside eight streams that want no more than their tokens.
absl::Status AttackTogether(const ScenarioOptions& options, double seconds,
                            BarResults& results);
// Standard error that nobody reads.
absl::Status LeaveLogUnread(const ScenarioOptions& options, double seconds,
                            BarResults& results);

}  // namespace mnemon::serving
