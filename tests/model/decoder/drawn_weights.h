// SPDX-License-Identifier: MIT
// Weights of any model without torch: the same numbers on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "model/compute/tensor_names.h"
#include "model/compute/weights.h"
#include "model/description/description.h"

namespace mnemon {

struct DrawnWeights {
  explicit DrawnWeights(const ModelDescription& model) {
    uint64_t state = 1;
    const std::vector<TensorShape> tensors = TensorsOf(model);
    floats.reserve(tensors.size());
    for (const TensorShape& tensor : tensors) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      // From -0.25 to 0.25, except the last gain, so that logits differ enough for
      // samples to depend on them.
      const float unit =
          tensor.name == names::Weight(names::kNorm) ? 0x1p-21f : 0x1p-25f;
      std::vector<float>& some = floats.emplace_back(static_cast<size_t>(count));
      for (float& f : some) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        f = static_cast<float>(static_cast<int32_t>(state >> 40) - (1 << 23)) * unit;
      }
      views.push_back(
          {.name = tensor.name, .shape = tensor.shape, .data = some.data()});
    }
  }

  std::vector<std::vector<float>> floats;
  TensorViews views;
};

}  // namespace mnemon
