// SPDX-License-Identifier: MIT
// Weights and carries as the rest of the system sees them: names, shapes and floats,
// without torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mnemon {

// A view of a float32, row-major tensor, whose owner keeps it alive and unchanged for
// as long as the view is used.
struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
};

// What a tensor is to be.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};

using TensorViews = std::vector<TensorView>;

}  // namespace mnemon
