// SPDX-License-Identifier: MIT
// The check that a run may continue with a configuration.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "train/data/config.h"
#include "train/run/training_state.h"

namespace mnemon {

// Whether a run begun as `before` may continue as `now`, on a text with `text_sha256`.
// Free to change: out, data.text (its content must be the same), train.keep and the
// sample; train.steps may grow where the schedule does not depend on it (constant,
// noam). FAILED_PRECONDITION lists every difference.
absl::Status CheckSameRun(const TrainConfig& before, const TrainConfig& now,
                          const TrainingState& state, const std::string& text_sha256);

}  // namespace mnemon
