// SPDX-License-Identifier: MIT
// The check of a safetensors file against the tensors that a model needs.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "model/io/finite_scan.h"
#include "model/io/safetensors.h"
#include "model/weights/weights.h"

namespace mnemon {

// Whether `file` holds exactly the `expected` tensors, all float32. Missing and extra
// tensors, wrong types and shapes, and what is given as not finite are one
// INVALID_ARGUMENT that lists them all; beyond a hundred it gives their number. Reads
// the header alone.
absl::Status CheckTensors(const Safetensors& file,
                          std::span<const TensorShape> expected,
                          std::span<const NonFinite> non_finite);

}  // namespace mnemon
