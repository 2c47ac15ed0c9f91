// SPDX-License-Identifier: MIT
// The record of a run as a TensorBoard event file.
#pragma once

#include <string>

#include "train/run/run_record.h"

namespace mnemon {

// The bytes of the file: scalars loss/train, loss/validation, accuracy, learning_rate,
// gradient_norm and tokens_per_second, and the text sample, as far as the run has them.
// Wall times count from RunRecord::began.
std::string FormatRunEvents(const RunRecord& run);

}  // namespace mnemon
