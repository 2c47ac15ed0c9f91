// SPDX-License-Identifier: MIT
// The place of a process in a training run of several processes. Launchers (torchrun,
// SLURM job scripts, Kubernetes PyTorchJob) pass it in the environment.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct Launch {
  int rank = 0;  // RANK, from 0
  int size = 1;  // WORLD_SIZE
  // LOCAL_WORLD_SIZE: processes on this machine; 1 if it is not set.
  int local_size = 1;
  std::string address;  // MASTER_ADDR: address of rank 0's machine
  // The port on which rank 0 listens: MASTER_PORT, or the next one under torchrun,
  // whose own store listens on MASTER_PORT.
  int port = 0;
};

// `get(name)` returns a variable's value, or null if it is not set. The result is a
// single process if WORLD_SIZE is not set or 1. INVALID_ARGUMENT names the variable
// that is missing or wrong.
absl::StatusOr<Launch> ReadLaunch(const std::function<const char*(const char*)>& get);

}  // namespace mnemon
