// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/io/safetensors.h"

namespace mnemon {

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Whether `file` holds exactly the `expected` tensors, all float32. Missing and extra
// tensors, wrong types and shapes, and (by option) NaN and infinity are one
// INVALID_ARGUMENT that lists them all; beyond a hundred it gives their number.
absl::Status CheckTensors(const Safetensors& file,
                          std::span<const ExpectedTensor> expected,
                          bool refuse_non_finite);

}  // namespace mnemon
