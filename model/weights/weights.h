// SPDX-License-Identifier: MIT
// Weights and carries as the rest of the system sees them: names, shapes and floats,
// without torch, perhaps still being read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mnemon {

// A view of a float32, row-major tensor, whose owner keeps it alive and unchanged for
// as long as the view is used.
struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;

  std::span<const float> values() const {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return {data, count};
  }
};

// What a tensor is to be.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
  bool int8 = false;  // else float32
};

using TensorViews = std::vector<TensorView>;

// How weights that are read while they are packed are waited for and given back: in the
// order of their addresses, best. Empty functions: all is there and stays. Called by
// several threads at once.
struct WeightStream {
  // Waits until what lies before `end` is there. What could not be read is zeros, which
  // whoever reads finds out.
  std::function<void(const float* end)> await;
  // What lies before `begin` is read no more.
  std::function<void(const float* begin)> release_before;
};

}  // namespace mnemon
