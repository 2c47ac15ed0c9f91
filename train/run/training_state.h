// SPDX-License-Identifier: MIT
// The state of a run besides weights, optimiser and memory: training/state.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mnemon {

struct TrainingState {
  int64_t steps = 0;    // updates made
  int64_t planned = 0;  // updates of the whole run; 0 with train.seconds
  // Tokens trained on; nullopt if the run began with a version that did not count them.
  std::optional<int64_t> tokens = 0;
  int64_t next_stage = 0;  // data cursor
  int64_t next_pass = 0;
  int64_t next_batch = 0;
  std::string numerics;  // of the latest updates
  std::string text_sha256;
  double seconds = 0;   // spent so far
  double loss_sum = 0;  // over the updates since the last row of metrics.csv
  int64_t loss_count = 0;
  int64_t metrics_bytes = 0;  // length of metrics.csv
  double validation = -1;     // latest; below 0 = none yet
  double best_validation = -1;
  int64_t best_step = 0;
};

// The only list of the fields.
template <class State, class Visitor>
void VisitTrainingState(State& s, Visitor&& visit) {
  visit("steps", s.steps);
  visit("planned", s.planned);
  visit("tokens", s.tokens);
  visit("next_stage", s.next_stage);
  visit("next_pass", s.next_pass);
  visit("next_batch", s.next_batch);
  visit("numerics", s.numerics);
  visit("text_sha256", s.text_sha256);
  visit("seconds", s.seconds);
  visit("loss_sum", s.loss_sum);
  visit("loss_count", s.loss_count);
  visit("metrics_bytes", s.metrics_bytes);
  visit("validation", s.validation);
  visit("best_validation", s.best_validation);
  visit("best_step", s.best_step);
}

std::string FormatTrainingState(const TrainingState& state);
// INVALID_ARGUMENT names `what` and every key that is missing or of the wrong type.
// next_stage and tokens may be missing; they are then 0 and nullopt.
absl::StatusOr<TrainingState> ParseTrainingState(std::string_view json,
                                                 std::string_view what);

}  // namespace mnemon
