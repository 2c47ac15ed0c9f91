// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <string>

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

// Refuses what this build cannot do, sets the threads, and runs `body`; what libtorch
// throws becomes a status.
absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status()>& body);

}  // namespace mnemon
