// SPDX-License-Identifier: MIT
// The driver of an NVIDIA GPU, on CUDA's runtime.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "model/compute/device/device_driver.h"

namespace mnemon {

// As OpenDevice("cuda").
absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeCudaDriver();

}  // namespace mnemon
