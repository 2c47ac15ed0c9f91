// SPDX-License-Identifier: MIT
// The check of safetensors files against the tensors that a model needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/weights.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

// In the file of a checkpoint.
DType TypeOf(const TensorShape& tensor);

// What a tensor of a file must be.
struct NeededTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<DType> types = {DType::kF32};  // any of them
};
std::vector<NeededTensor> NeededOf(std::span<const TensorShape> tensors);

// Whether `files` together hold exactly the `needed` tensors, each of them once, beside
// those whose names end with one of `ignored`. Missing and extra tensors, wrong types
// and shapes, and what is given as bad weights are one INVALID_ARGUMENT that lists them
// all; beyond a hundred it gives their number. Reads the headers alone.
absl::Status CheckTensors(std::span<const Safetensors> files,
                          std::span<const NeededTensor> needed,
                          std::span<const BadWeight> bad_weights,
                          std::span<const std::string> ignored = {});

}  // namespace mnemon
