// SPDX-License-Identifier: MIT
// An estimate of how long calls of one model wait and run at the present load, from
// measured times: a value without clock or lock.
//
// The unit of work is a call's part in one step: a chunk of its prompt or one token.
// With R calls running, each gets a unit per step; so a call of u units runs for u
// steps, and R / (time of a step) units are done per second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace mnemon {

class LoadEstimate {
 public:
  using Duration = std::chrono::duration<double>;

  // `chunk` tokens of a prompt are one unit.
  explicit LoadEstimate(int64_t chunk) : chunk_(chunk) {}

  // A step ended `interval` after the one before it; not called for the first step
  // after a pause.
  void RecordStep(Duration interval);
  // A call ended by itself after generating so many tokens.
  void RecordEnd(int64_t generated);

  // Units of a call that may generate up to `max_tokens`: as many as calls generated on
  // average so far, few where none has ended yet.
  int64_t UnitsOf(int64_t prompt_tokens, int64_t max_tokens) const;
  // From its admission to its end.
  Duration RunTime(int64_t units) const { return step_ * static_cast<double>(units); }
  // From now until a queued call starts, with `waiting_units` queued before it and
  // `running_units` left of the `running` calls together.
  Duration WaitTime(int64_t waiting_units, int64_t running_units,
                    int64_t running) const;

  // Whether enough steps were measured for an estimate.
  bool measured() const { return steps_ >= kFewSteps; }

 private:
  static constexpr int kFewSteps = 16;
  static constexpr int64_t kFewTokens = 32;
  // Weight of the newest step and call in the moving averages.
  static constexpr double kStepWeight = 1.0 / 16;
  static constexpr double kCallWeight = 1.0 / 8;

  const int64_t chunk_;
  Duration step_{0};
  int steps_ = 0;
  std::optional<double> generated_;
};

}  // namespace mnemon
