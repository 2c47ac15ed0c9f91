// SPDX-License-Identifier: MIT
#include "model/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>

namespace mnemon {
namespace {

// Inputs that a panel has room for.
int64_t Depth(WeightFormat format, int64_t inputs) {
  return format == WeightFormat::kFp32 ? inputs : (inputs + 1) / 2 * 2;
}

// Inputs begin .. end-1 of some rows, side by side.
void FillFp32(const float* from, int64_t stride, int64_t rows, int64_t begin,
              int64_t end, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = begin; k < end; ++k) {
      to[k * kPanel + r] = Flush(from[r * stride + k]);
    }
  }
}

void FillBf16(const float* from, int64_t stride, int64_t rows, int64_t begin,
              int64_t end, uint32_t* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = begin; k < end; ++k) {
      to[k / 2 * kPanel + r] |= uint32_t{ToBf16(Flush(from[r * stride + k]))}
                                << (k % 2 * 16);
    }
  }
}

}  // namespace

MatrixView PanelsOf(const MatrixView& matrix, PanelRange range) {
  const int64_t first = range.begin * kPanel;
  const bool bf16 = matrix.format == WeightFormat::kBf16;
  const int64_t weight = bf16 ? sizeof(uint16_t) : sizeof(float);
  MatrixView some = matrix;
  some.outputs = std::min(matrix.outputs, range.end * kPanel) - first;
  some.panels = static_cast<const char*>(matrix.panels) +
                first * Depth(matrix.format, matrix.inputs) * weight;
  if (matrix.bias != nullptr) some.bias = matrix.bias + first;
  return some;
}

uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

MatrixView PackedWeights::Room(int64_t outputs, int64_t inputs, bool bias) {
  const int64_t panels = (outputs + kPanel - 1) / kPanel;
  const int64_t size = format_ == WeightFormat::kFp32 ? 4 : 2;
  return {.outputs = outputs,
          .inputs = inputs,
          .format = format_,
          .panels = memory_.Take(panels * Depth(format_, inputs) * kPanel * size),
          .bias = bias ? Make(panels * kPanel) : nullptr};
}

void PackedWeights::Fill(const MatrixView& room, int64_t at,
                         std::span<const float> rows) {
  const int64_t inputs = room.inputs, depth = Depth(room.format, inputs);
  const int64_t count = static_cast<int64_t>(rows.size()) / inputs;
  void* const packed = const_cast<void*>(room.panels);
  // Rows of one panel together, a few inputs at a time: what is read and what is
  // written stay in the first cache.
  constexpr int64_t kAtOnce = 16;
  for (int64_t row = 0; row < count;) {
    const int64_t panel = (at + row) / kPanel * depth * kPanel;
    const int64_t output = (at + row) % kPanel;
    const int64_t together = std::min(count - row, kPanel - output);
    const float* const from = rows.data() + row * inputs;
    for (int64_t k = 0; k < inputs; k += kAtOnce) {
      const int64_t end = std::min(k + kAtOnce, inputs);
      if (room.format == WeightFormat::kFp32) {
        FillFp32(from, inputs, together, k, end,
                 static_cast<float*>(packed) + panel + output);
      } else {
        FillBf16(from, inputs, together, k, end,
                 static_cast<uint32_t*>(packed) + panel / 2 + output);
      }
    }
    row += together;
  }
}

void PackedWeights::FillBias(const MatrixView& room, int64_t at,
                             std::span<const float> biases) {
  std::ranges::transform(biases, const_cast<float*>(room.bias) + at, Flush);
}

MatrixView PackedWeights::Pack(std::span<const PlainMatrix> parts, int64_t inputs) {
  int64_t outputs = 0;
  bool bias = false;
  for (const PlainMatrix& part : parts) {
    outputs += part.outputs;
    bias = bias || part.bias != nullptr;
  }
  const MatrixView room = Room(outputs, inputs, bias);
  int64_t at = 0;
  for (const PlainMatrix& part : parts) {
    const auto rows = static_cast<size_t>(part.outputs);
    Fill(room, at, {part.weights, rows * static_cast<size_t>(inputs)});
    if (part.bias != nullptr) FillBias(room, at, {part.bias, rows});
    at += part.outputs;
  }
  return room;
}

const float* PackedWeights::Keep(std::span<const float> values) {
  float* kept = Make(static_cast<int64_t>(values.size()));
  std::ranges::transform(values, kept, Flush);
  return kept;
}

float* PackedWeights::Make(int64_t count, int64_t margin) {
  return memory_.TakeFloats(std::max<int64_t>(1, count + 2 * margin)) + margin;
}

}  // namespace mnemon
