// SPDX-License-Identifier: MIT
// The device that holds a model's weights and computes its tensors: the CPU or one GPU.
// Tokens and session state stay on the host.
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/sequence/model.h"

namespace mnemon {

// The device for the value of a --device flag, ready for use: "cpu", or "cuda" for the
// first GPU. INVALID_ARGUMENT for another name, a build without CUDA, a machine without
// a GPU; the message names the flag and the fix. Call in main, before the first tensor
// operation.
absl::StatusOr<at::Device> FindDevice(const std::string& name);

// What determines bits on the device: "cuda-nvidia-h100-80gb-hbm3"; for the CPU, the
// instruction sets chosen by libtorch and its BLAS, "cpu-avx2-haswell".
std::string DeviceClass(at::Device device);

// Device of the weights of `model`.
at::Device DeviceOf(const Model& model);
// Moves all weights; turns gradients off. Throws c10::Error without memory.
void MoveWeights(Model& model, at::Device device);

}  // namespace mnemon
