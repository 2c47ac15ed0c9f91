// SPDX-License-Identifier: MIT
#include "model/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>

namespace mnemon {

uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

MatrixView PackedWeights::Pack(std::span<const PlainMatrix> parts, int64_t inputs) {
  int64_t outputs = 0;
  bool bias = false;
  for (const PlainMatrix& part : parts) {
    outputs += part.outputs;
    bias = bias || part.bias != nullptr;
  }
  const int64_t panels = (outputs + kPanel - 1) / kPanel;
  const int64_t size = format_ == WeightFormat::kFp32 ? 4 : 2;
  const int64_t depth = format_ == WeightFormat::kFp32 ? inputs : (inputs + 1) / 2 * 2;
  void* packed = memory_.Take(panels * depth * kPanel * size);
  float* biases = bias ? Make(panels * kPanel) : nullptr;
  int64_t n = 0;
  for (const PlainMatrix& part : parts) {
    for (int64_t i = 0; i < part.outputs; ++i, ++n) {
      for (int64_t k = 0; k < inputs; ++k) {
        const float weight = part.weights[i * inputs + k];
        const int64_t panel = n / kPanel * depth * kPanel, output = n % kPanel;
        if (format_ == WeightFormat::kFp32) {
          static_cast<float*>(packed)[panel + k * kPanel + output] = weight;
        } else {
          uint32_t& pair =
              static_cast<uint32_t*>(packed)[panel / 2 + k / 2 * kPanel + output];
          pair |= uint32_t{ToBf16(weight)} << (k % 2 * 16);
        }
      }
      if (part.bias != nullptr) biases[n] = part.bias[i];
    }
  }
  return {.outputs = outputs,
          .inputs = inputs,
          .format = format_,
          .panels = packed,
          .bias = biases};
}

const float* PackedWeights::Keep(std::span<const float> values) {
  float* kept = Make(static_cast<int64_t>(values.size()));
  std::copy(values.begin(), values.end(), kept);
  return kept;
}

float* PackedWeights::Make(int64_t count, int64_t margin) {
  return memory_.TakeFloats(std::max<int64_t>(1, count + 2 * margin)) + margin;
}

}  // namespace mnemon
