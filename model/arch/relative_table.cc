// SPDX-License-Identifier: MIT
#include "model/arch/relative_table.h"

#include "model/kernels/kernels.h"

namespace mnemon {

RelativeTable MakeRelativeTable(const TensorView& key, const TensorView* bias,
                                const TensorView* query_bias, PackedWeights& memory) {
  const int64_t rows = key.shape[0], heads = key.shape[1], width = key.shape[2];
  // A block may begin before the first row that is wanted and end behind the last.
  float* keys = memory.Make(heads * width * rows, kBlockPositions);
  float* biases = memory.Make(heads * rows, kBlockPositions);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      double tied = 0;
      for (int64_t i = 0; i < width; ++i) {
        const float value = key.data[(r * heads + h) * width + i];
        keys[(h * width + i) * rows + r] = value;
        if (bias == nullptr) tied += double{query_bias->data[h * width + i]} * value;
      }
      biases[h * rows + r] =
          bias == nullptr ? static_cast<float>(tied) : bias->data[r * heads + h];
    }
  }
  return {.key = keys, .bias = biases, .rows = rows};
}

}  // namespace mnemon
