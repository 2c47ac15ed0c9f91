// SPDX-License-Identifier: MIT
// Checks that a run may continue with a configuration.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "train/data/config.h"
#include "train/run/training_state.h"

namespace mnemon {

// OK if a run begun with `before` may continue with `now`, on a text with
// `text_sha256`. These may change: out, data.text (not its content), train.keep and the
// sample. train.steps may grow if the schedule does not depend on it (constant, noam).
// FAILED_PRECONDITION lists every other difference.
absl::Status CheckSameRun(const TrainConfig& before, const TrainConfig& now,
                          const TrainingState& state, const std::string& text_sha256);

}  // namespace mnemon
