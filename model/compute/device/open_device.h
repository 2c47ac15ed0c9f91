// SPDX-License-Identifier: MIT
// Opens a device of this machine by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/compute/device/device_driver.h"

namespace mnemon {

// Driver of the device named by the user; null for "cpu". "cuda": the first GPU in
// CUDA_VISIBLE_DEVICES. INVALID_ARGUMENT for other names, UNIMPLEMENTED in a build
// without CUDA, UNAVAILABLE if there is no usable GPU.
absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenDevice(std::string_view name);

}  // namespace mnemon
