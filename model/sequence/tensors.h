// SPDX-License-Identifier: MIT
// Conversion between safetensors and ATen tensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/safetensors.h"
#include "model/sequence/model.h"

namespace mnemon {

using NamedTensorList = std::vector<std::pair<std::string, at::Tensor>>;

// Copies of F32, F64, I64, I32, U8, I8, I16, BOOL, F16 and BF16 tensors.
absl::StatusOr<at::Tensor> ToTensor(const Safetensors& file, const TensorInfo& info);
absl::StatusOr<std::string> FormatTensors(const NamedTensorList& tensors);

// model.safetensors of a float32 model.
absl::StatusOr<std::string> FormatWeights(Model& model);

}  // namespace mnemon
