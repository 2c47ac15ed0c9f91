// SPDX-License-Identifier: MIT
// The flags that say where and how a command computes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "base/process/command_line.h"
#include "model/program/decoder_flags.h"
#include "model/program/make_decoder.h"

namespace mnemon {

// Values of the flags.
struct ComputeFlags {
  std::string device = "cpu";
  int threads = 0;  // 0 = all cores
  DecoderFlags decoder;
  std::optional<int64_t> max_context;  // nullopt: the model's
  bool steps = false;  // the command uses the step form: --device applies to it too
};

// Adds --threads and --device. `flags` must outlive `app`.
void AddComputeFlags(Command app, ComputeFlags& flags);
// Also adds the flags of decoders, for a command that uses the step form.
void AddStepComputeFlags(Command app, ComputeFlags& flags);

// What the flags ask for, opened and ready for use.
struct Compute {
  // Device of tensors. The CPU if the step form has a device of its own, in `decoder`.
  at::Device device = at::kCPU;
  DecoderOptions decoder;  // its pool has PoolThreads(threads)
  std::optional<int64_t> max_context;

  std::string device_name = "cpu";

  bool on_host() const { return device_name == "cpu"; }
};

// The device of tensors with this name, for commands that compute with the sequence
// form. UsageError if this build or machine does not have it.
absl::StatusOr<at::Device> TensorDevice(const std::string& name);

// The number of cores that `flags` ask for; by default all that this process may use.
int ThreadsOf(const ComputeFlags& flags);

// Runs `body` with the threads and devices that `flags` ask for. UsageError if this
// build or machine does not have them. Exceptions of libtorch become a status.
absl::Status RunComputing(const ComputeFlags& flags,
                          const std::function<absl::Status(const Compute&)>& body);

}  // namespace mnemon
