// SPDX-License-Identifier: MIT
// Threads that are the processes of a training run.
#pragma once

#include <functional>

#include "train/parallel/process_group.h"

namespace mnemon {

// Calls process(group) in `count` threads, each with its rank, and waits for all.
void RunAsProcesses(int count, const std::function<void(ProcessGroup&)>& process);

}  // namespace mnemon
