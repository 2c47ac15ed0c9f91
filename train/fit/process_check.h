// SPDX-License-Identifier: MIT
// What processes must have in common to train one model.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "train/data/config.h"
#include "train/parallel/launch.h"
#include "train/parallel/process_group.h"

namespace mnemon {

// An error of usage where the number of processes is not a power of two, or where one
// would have no shard or no row of a batch. On a GPU a process has its rows as one
// shard.
absl::Status CheckProcesses(const Launch& launch, const TrainConfig& config,
                            bool on_cpu);

// FAILED_PRECONDITION when the program, the configuration or the text of this process
// is another than that of process 0, and at the others when it is so somewhere. The
// paths of the run, its text and its start may differ. Called by all processes of a
// group.
absl::Status CheckSameEverywhere(ProcessGroup& group, const TrainConfig& config,
                                 const std::string& text_sha256);

}  // namespace mnemon
