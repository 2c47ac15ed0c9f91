// SPDX-License-Identifier: MIT
#include "model/layers/positions.h"

#include <cmath>
#include <vector>

#include <ATen/ops/empty.h>

namespace mnemon {

at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width, at::ScalarType type) {
  std::vector<double> frequency((width + 1) / 2);
  for (size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::exp(-2.0 * static_cast<double>(i) * std::log(10000.0) /
                            static_cast<double>(width));
  }
  at::Tensor table = at::empty({count, width}, at::kDouble);
  double* out = table.data_ptr<double>();
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      const double angle = static_cast<double>(first + t) * frequency[d / 2];
      *out++ = d % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table.to(type);
}

}  // namespace mnemon
