// SPDX-License-Identifier: MIT
// The runner of a device, which also draws tokens: the next batch finds them there. A
// batch is cut into pieces of at most kStepRows rows. For each, one copy brings what
// changed; then few rows go through one kernel that does the whole step, more through a
// graph of launches that was made when the model was loaded, one for each power of two
// of rows.
#pragma once

#include <cstdint>
#include <memory>

#include "model/compute/device/device_driver.h"
#include "model/compute/packed_weights.h"
#include "model/program/step_program.h"
#include "model/program/step_runner.h"

namespace mnemon {

// For states of `spec`, in arenas whose memory is a DeviceMemory of the driver. The
// program, its weights and the driver must outlive it. Throws std::bad_alloc.
// RESOURCE_EXHAUSTED: the program's rows do not fit a block of the device.
absl::StatusOr<std::unique_ptr<StepRunner>> MakeDeviceRunner(
    const StepProgram& program, const StateSpec& spec, const PackedWeights& weights,
    DeviceDriver& driver);

}  // namespace mnemon
