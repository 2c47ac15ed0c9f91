// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "base/command_line.h"

namespace mnemon {

// Where and how a command computes.
struct ComputeFlags {
  std::string device = "cpu";
  std::string precision = "fp32";
  int threads = 0;  // 0 = all cores
};

// Adds --threads, --device and --precision. `flags` must outlive `app`.
void AddComputeFlags(Command app, ComputeFlags& flags);

// Refuses what this build and machine cannot do, sets the threads, and runs `body` with
// the device of the flags; what libtorch throws becomes a status.
absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(at::Device)>& body);

}  // namespace mnemon
