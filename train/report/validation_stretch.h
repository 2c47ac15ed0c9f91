// SPDX-License-Identifier: MIT
// The beginning of a run's validation data: one row of tokens, in windows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "train/data/loader.h"
#include "train/data/task.h"

namespace mnemon {

struct ValidationStretch {
  std::unique_ptr<Task> task;
  std::vector<Batch> windows;  // of one row each, at least one
  // A label for a token: its text, or its number if it does not stand for text.
  std::string Label(int64_t token) const;
};

struct StretchLimits {
  int64_t windows = 1;          // at most
  int64_t window_tokens = 256;  // at most, in each
};

// Reads the validation data of the run in directory `run`, by the training
// configuration in its checkpoint. FAILED_PRECONDITION if the text has changed since
// training; the errors of ReadTrainingFile and LoadTask.
absl::StatusOr<ValidationStretch> ReadValidationStretch(const std::string& run,
                                                        const StretchLimits& limits);

}  // namespace mnemon
