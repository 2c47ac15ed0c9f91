// SPDX-License-Identifier: MIT
// The beginning of a run's validation data, as one row of tokens in windows.
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
  // Of a token, for people: its text, or its number where it stands for none.
  std::string Label(int64_t token) const;
};

struct StretchLimits {
  int64_t windows = 1;          // at most
  int64_t window_tokens = 256;  // at most, in each
};

// By the configuration of training in the checkpoint of the run in directory `run`.
// FAILED_PRECONDITION when the text has changed since; the errors of ReadTrainingFile
// and LoadTask.
absl::StatusOr<ValidationStretch> ReadValidationStretch(const std::string& run,
                                                        const StretchLimits& limits);

}  // namespace mnemon
