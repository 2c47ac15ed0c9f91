// SPDX-License-Identifier: MIT
// The flags of where and how a command computes.
#pragma once

#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "base/command_line.h"
#include "model/registry/decoder_flags.h"
#include "model/registry/registry.h"

namespace mnemon {

// Where and how a command computes.
struct ComputeFlags {
  std::string device = "cpu";
  int threads = 0;  // 0 = all cores
  DecoderFlags decoder;
};

// Adds --threads and --device. `flags` must outlive `app`.
void AddComputeFlags(Command app, ComputeFlags& flags);
// The same and those of decoders, for a command that steps.
void AddStepComputeFlags(Command app, ComputeFlags& flags);

// What the flags ask for, ready for use.
struct Compute {
  at::Device device = at::kCPU;
  DecoderOptions decoder;  // its pool has PoolThreads(threads)
};

// The cores that `flags` ask for: by default all that this process may use.
int ThreadsOf(const ComputeFlags& flags);

// Refuses what this build and machine cannot do, sets the threads, and runs `body`;
// what libtorch throws becomes a status.
absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(const Compute&)>& body);

}  // namespace mnemon
