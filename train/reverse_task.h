// SPDX-License-Identifier: MIT
// The reverse task of the attention notebook: random digits in, the same in reverse
// order out. It needs only positions and can be learned to an accuracy of 100 %.
#pragma once

#include <memory>

#include "train/config.h"
#include "train/task.h"

namespace mnemon {

// Sequences of options.seq_len digits 0 .. options.classes-1, options.*_sequences of
// them for training, validation and test, the same in every pass. Training shuffles
// them and drops the last partial batch.
std::unique_ptr<Task> MakeReverseTask(const DataOptions& options);

}  // namespace mnemon
