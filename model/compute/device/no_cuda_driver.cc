// SPDX-License-Identifier: MIT
// Stub for builds without CUDA.
#include "base/error.h"
#include "model/compute/device/cuda_driver.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<DeviceDriver>> MakeCudaDriver() {
  return MakeError(absl::StatusCode::kUnimplemented,
                   "--device cuda: this build is without CUDA; see docs/gpu.md",
                   {.reason = "NO_CUDA", .field = "device"});
}

}  // namespace mnemon
