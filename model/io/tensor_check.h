// SPDX-License-Identifier: MIT
// The check of a safetensors file against the tensors that a model needs.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "model/compute/weights.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

// In the file.
DType TypeOf(const TensorShape& tensor);

// Whether `file` holds exactly the `expected` tensors. Missing and extra tensors, wrong
// types and shapes, and what is given as bad weights are one INVALID_ARGUMENT that
// lists them all; beyond a hundred it gives their number. Reads the header alone.
absl::Status CheckTensors(const Safetensors& file,
                          std::span<const TensorShape> expected,
                          std::span<const BadWeight> bad_weights);

}  // namespace mnemon
