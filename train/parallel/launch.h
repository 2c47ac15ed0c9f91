// SPDX-License-Identifier: MIT
// The place of a process among those of one training run, as launchers (torchrun, job
// scripts of SLURM, PyTorchJob of Kubernetes) say it in the environment.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace mnemon {

struct Launch {
  int rank = 0;  // RANK, from 0
  int size = 1;  // WORLD_SIZE
  int local_size =
      1;  // LOCAL_WORLD_SIZE: of them on this machine; 1 where it is not set
  std::string address;  // MASTER_ADDR: of the machine of rank 0
  int port = 0;         // where rank 0 listens: MASTER_PORT or, behind torchrun, whose
                        // own store has it, the next one
};

// `get(name)` is a variable's value, null where it is not set. A process by itself
// where WORLD_SIZE is not set or 1. INVALID_ARGUMENT names what is missing or wrong.
absl::StatusOr<Launch> ReadLaunch(const std::function<const char*(const char*)>& get);

}  // namespace mnemon
