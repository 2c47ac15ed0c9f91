// SPDX-License-Identifier: MIT
// The devices of this machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model/compute/device/device_driver.h"

namespace mnemon {

// A driver of the device that users name so; null: "cpu". "cuda": the first GPU that
// CUDA_VISIBLE_DEVICES shows. INVALID_ARGUMENT for other names, UNIMPLEMENTED in a
// build without CUDA, UNAVAILABLE where there is no GPU that it can use.
absl::StatusOr<std::unique_ptr<DeviceDriver>> OpenDevice(std::string_view name);

}  // namespace mnemon
