// SPDX-License-Identifier: MIT
// A training run, from the configuration to the last checkpoint.
#pragma once

#include <chrono>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "base/clock.h"
#include "train/data/config.h"
#include "train/parallel/launch.h"

namespace mnemon {

struct FitOptions {
  TrainConfig config;  // validated; config.out is set
  bool resume = false;
  at::Device device = at::kCPU;
  // 0 = all cores that the process may use, divided among the launch's processes on
  // this machine; 1 with a GPU.
  int threads = 0;
  Launch launch;
  std::chrono::seconds peer_timeout{300};  // longest wait for another process
  std::string resume_command;              // shown when the run is interrupted
  const Clock& clock = Clock::Real();      // measures train.seconds
};

// Trains until the end of the plan or until Ctrl-C; both are OK. FAILED_PRECONDITION if
// the run directory cannot be used or if a resumed run has another configuration (lists
// all differences). OUT_OF_RANGE if training diverges; the message names the last good
// checkpoint. Of several processes only the first writes to the directory. UNAVAILABLE
// in every process if one is lost; the run can then be resumed.
absl::Status Fit(const FitOptions& options);

}  // namespace mnemon
