// SPDX-License-Identifier: MIT
#include "model/blocks/attention/relative_table.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "model/compute/kernels.h"

namespace mnemon {

RelativeTable MakeRelativeTable(const TensorView& key, const TensorView* bias,
                                const TensorView* query_bias, StepWeights& weights) {
  const int64_t rows = key.shape[0], heads = key.shape[1], width = key.shape[2];
  // A block may begin before the first wanted row and end after the last.
  float* keys = weights.Make(heads * width * rows, kBlockPositions);
  float* biases = weights.Make(heads * rows, kBlockPositions);
  const bool free = bias != nullptr;
  const TensorView* const added = free ? bias : query_bias;
  auto sources = BytesOfRows(key, 0, rows);
  std::ranges::copy(BytesOfRows(*added, 0, added->rows()), std::back_inserter(sources));
  weights.Later(sources, [=, table = &key] {
    std::vector<float> from(table->count()), other(added->count());
    ReadRows(*table, 0, table->rows(), from.data());
    ReadRows(*added, 0, added->rows(), other.data());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        double tied = 0;
        for (int64_t i = 0; i < width; ++i) {
          const float value = from[(r * heads + h) * width + i];
          keys[(h * width + i) * rows + r] = Flush(value);
          if (!free) tied += double{other[h * width + i]} * value;
        }
        biases[h * rows + r] =
            Flush(free ? other[r * heads + h] : static_cast<float>(tied));
      }
    }
  });
  return {.key = keys, .bias = biases, .rows = rows};
}

}  // namespace mnemon
