// SPDX-License-Identifier: MIT
// Check of safetensors files against the tensors that a model needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/compute/weights.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

// Type in the file of a checkpoint.
DType TypeOf(const TensorShape& tensor);

// Requirements for a tensor of a file.
struct NeededTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<DType> types = {DType::kF32};  // any of them
};
std::vector<NeededTensor> NeededOf(std::span<const TensorShape> tensors);

// Checks that `files` together hold exactly the `needed` tensors, each once, besides
// those whose names end with one of `ignored`. One INVALID_ARGUMENT lists all missing
// and extra tensors, wrong types and shapes, and the given bad weights; beyond a
// hundred it gives their number. Reads only the headers.
absl::Status CheckTensors(std::span<const Safetensors> files,
                          std::span<const NeededTensor> needed,
                          std::span<const BadWeight> bad_weights,
                          std::span<const std::string> ignored = {});

}  // namespace mnemon
