// SPDX-License-Identifier: MIT
// With how many blocks and threads, and how much shared memory, a device does the calls
// of a step program.
#pragma once

#include <cstdint>
#include <span>

#include "model/compute/device/device_driver.h"
#include "model/operations/cuda/step_call.h"
#include "model/program/step_program.h"

namespace mnemon {

// Of one launch.
struct StepShape {
  LaunchShape launch;
  int64_t shared_floats = 0;
  int64_t ahead_floats = 0;  // of a whole step
};

// Of a kernel that does one call for up to `rows` rows.
StepShape ShapeOf(const StepCall& call, int64_t rows, const DeviceLimits& limits);

// Of the kernel that does all of `calls`.
StepShape ShapeOf(std::span<const StepCall> calls, int64_t rows,
                  const DeviceLimits& limits);

// What steps of a program need, whatever their rows.
struct DeviceNeeds {
  int64_t shared_bytes = 0;     // of a block
  int64_t prepared_floats = 0;  // of a prepared row
};
DeviceNeeds NeedsOf(const StepProgram& program);

}  // namespace mnemon
