// SPDX-License-Identifier: MIT
// Checks that the processes of a run can train one model together.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "train/data/config.h"
#include "train/parallel/launch.h"
#include "train/parallel/process_group.h"

namespace mnemon {

// UsageError if the number of processes is not a power of two, or so large that one
// would have no shard or no row of a batch. On a GPU the rows of a process are one
// shard.
absl::Status CheckProcesses(const Launch& launch, const TrainConfig& config,
                            bool on_cpu);

// FAILED_PRECONDITION in every process if the program, the configuration or the text of
// any process differs from that of process 0. The paths of the run, of its text and of
// its start may differ. Called by all processes of a group.
absl::Status CheckSameEverywhere(ProcessGroup& group, const TrainConfig& config,
                                 const std::string& text_sha256);

}  // namespace mnemon
