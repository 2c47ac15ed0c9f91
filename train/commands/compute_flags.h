// SPDX-License-Identifier: MIT
// The flags of where and how a command computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "base/command_line.h"
#include "model/program/decoder_flags.h"
#include "model/program/make_decoder.h"

namespace mnemon {

// Where and how a command computes.
struct ComputeFlags {
  std::string device = "cpu";
  int threads = 0;  // 0 = all cores
  DecoderFlags decoder;
  std::optional<int64_t> max_context;  // none: the model's
  bool steps = false;  // the command steps: --device is the step form's, too
};

// Adds --threads and --device. `flags` must outlive `app`.
void AddComputeFlags(Command app, ComputeFlags& flags);
// The same and those of decoders, for a command that steps.
void AddStepComputeFlags(Command app, ComputeFlags& flags);

// What the flags ask for, ready for use.
struct Compute {
  // Of tensors: the CPU where step forms have a device of their own, which is the
  // decoder's.
  at::Device device = at::kCPU;
  DecoderOptions decoder;  // its pool has PoolThreads(threads)
  std::optional<int64_t> max_context;

  std::string device_name = "cpu";

  bool on_host() const { return device_name == "cpu"; }
};

// That of tensors of the sequence form, where that is what computes. Exit code 2 where
// this build or machine has none of the name.
absl::StatusOr<at::Device> TensorDevice(const std::string& name);

// The cores that `flags` ask for: by default all that this process may use.
int ThreadsOf(const ComputeFlags& flags);

// Refuses what this build and machine cannot do, sets the threads, and runs `body`;
// what libtorch throws becomes a status.
absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(const Compute&)>& body);

}  // namespace mnemon
