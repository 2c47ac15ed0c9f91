// SPDX-License-Identifier: MIT
// DeviceDriver of an NVIDIA GPU, using the CUDA runtime.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "model/compute/device/device_driver.h"

namespace mnemon {

// See OpenDevice("cuda").
absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeCudaDriver();

}  // namespace mnemon
