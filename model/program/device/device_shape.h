// SPDX-License-Identifier: MIT
// Blocks, threads and shared memory with which a device executes the calls of a step
// program.
#pragma once

#include <cstdint>
#include <span>

#include "model/compute/device/device_driver.h"
#include "model/operations/cuda/step_call.h"
#include "model/program/step/step_program.h"

namespace mnemon {

// Shape of one launch.
struct StepShape {
  LaunchShape launch;
  int64_t shared_floats = 0;
  int64_t ahead_floats = 0;  // for a whole step
};

// Shape of a kernel that executes one call for up to `rows` rows.
StepShape ShapeOf(const StepCall& call, int64_t rows, const DeviceLimits& limits);

// Shape of the kernel that executes all of `calls`.
StepShape ShapeOf(std::span<const StepCall> calls, int64_t rows,
                  const DeviceLimits& limits);

// Needs of the steps of a program, for any number of rows.
struct DeviceNeeds {
  int64_t shared_bytes = 0;     // per block
  int64_t prepared_floats = 0;  // per prepared row
};
DeviceNeeds NeedsOf(const StepProgram& program);

}  // namespace mnemon
