// SPDX-License-Identifier: MIT
#include "model/steps/relative_table.h"

#include "model/kernels/kernels.h"

namespace mnemon {

RelativeTable MakeRelativeTable(const TensorView& key, const TensorView* bias,
                                const TensorView* query_bias, StepWeights& weights) {
  const int64_t rows = key.shape[0], heads = key.shape[1], width = key.shape[2];
  // A block may begin before the first row that is wanted and end behind the last.
  float* keys = weights.Make(heads * width * rows, kBlockPositions);
  float* biases = weights.Make(heads * rows, kBlockPositions);
  weights.Later([=, from = key.data, free = bias == nullptr ? nullptr : bias->data,
                 u = query_bias == nullptr ? nullptr : query_bias->data] {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        double tied = 0;
        for (int64_t i = 0; i < width; ++i) {
          const float value = from[(r * heads + h) * width + i];
          keys[(h * width + i) * rows + r] = value;
          if (free == nullptr) tied += double{u[h * width + i]} * value;
        }
        biases[h * rows + r] =
            free == nullptr ? static_cast<float>(tied) : free[r * heads + h];
      }
    }
  });
  return {.key = keys, .bias = biases, .rows = rows};
}

}  // namespace mnemon
