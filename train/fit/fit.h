// SPDX-License-Identifier: MIT
// A training run from the configuration to its last checkpoint.
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
  // 0 = all cores that the process may use, shared with others of the launch that run
  // on this machine. A GPU is driven by one.
  int threads = 0;
  Launch launch;
  std::chrono::seconds peer_timeout{300};  // for what other processes are waited for
  std::string resume_command;              // shown when the run is interrupted
  const Clock& clock = Clock::Real();      // of train.seconds
};

// Trains until the plan is fulfilled or Ctrl-C; both are OK. FAILED_PRECONDITION when
// the run directory cannot be used or a resumed run has another configuration (all
// differences are listed), OUT_OF_RANGE when training diverges; the last good
// checkpoint is named. Of several processes the first alone writes to the directory;
// UNAVAILABLE when one is lost: each ends so, and the run can be resumed.
absl::Status Fit(const FitOptions& options);

}  // namespace mnemon
