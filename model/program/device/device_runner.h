// SPDX-License-Identifier: MIT
// StepRunner of a device. It also draws tokens, which the next batch finds on the
// device. A batch is cut into pieces of at most kStepRows rows. For each piece, one
// copy transfers what changed; then few rows go through one kernel that does the whole
// step, more rows through a graph of launches, made at load time for each power of two
// of rows.
#pragma once

#include <cstdint>
#include <memory>

#include "model/compute/device/device_driver.h"
#include "model/compute/packed_weights.h"
#include "model/program/step/step_program.h"
#include "model/program/step/step_runner.h"

namespace mnemon {

// For states of `spec`, in arenas whose memory is a DeviceMemory of the driver. The
// program, its weights and the driver must outlive it. RESOURCE_EXHAUSTED if the
// program's rows do not fit a block of the device. Throws std::bad_alloc.
absl::StatusOr<std::unique_ptr<StepRunner>> MakeDeviceRunner(
    const StepProgram& program, const StateSpec& spec, const PackedWeights& weights,
    DeviceDriver& driver);

}  // namespace mnemon
