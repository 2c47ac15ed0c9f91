// SPDX-License-Identifier: MIT
#include "model/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>

namespace mnemon {
namespace {

// Bytes of a slice of a panel.
int64_t SliceBytes(WeightFormat format, int64_t slice) {
  const int64_t rounded = format == WeightFormat::kFp32 ? slice : (slice + 1) / 2 * 2;
  return rounded * kPanel * (format == WeightFormat::kFp32 ? 4 : 2);
}

// Inputs begin .. end-1 of some rows, of one slice, side by side.
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

MatrixView PanelsOf(const MatrixView& matrix, Part panels) {
  MatrixView some = matrix;
  some.outputs = std::min(matrix.outputs, panels.end * kPanel) - panels.begin * kPanel;
  some.panels =
      static_cast<const char*>(matrix.panels) + panels.begin * matrix.panel_bytes;
  if (matrix.bias != nullptr) some.bias = matrix.bias + panels.begin * kPanel;
  return some;
}

uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

MatrixView PackedWeights::Room(int64_t outputs, int64_t inputs, bool bias,
                               int64_t slice) {
  MatrixView room{.outputs = outputs,
                  .inputs = inputs,
                  .slice = slice > 0 ? slice : std::min(inputs, SliceWidth(inputs)),
                  .format = format_};
  room.slice_bytes = SliceBytes(format_, room.slice);
  room.panel_bytes = room.slices() * room.slice_bytes;
  room.panels = memory_.Take(room.panel_count() * room.panel_bytes);
  room.bias = bias ? Make(room.panel_count() * kPanel) : nullptr;
  return room;
}

void PackedWeights::Fill(const MatrixView& room, int64_t at,
                         std::span<const float> rows) {
  const int64_t inputs = room.inputs;
  const int64_t count = static_cast<int64_t>(rows.size()) / inputs;
  char* const packed = static_cast<char*>(const_cast<void*>(room.panels));
  // Rows of one panel together, a few inputs at a time: what is read and what is
  // written stay in the first cache.
  constexpr int64_t kAtOnce = 16;
  for (int64_t row = 0; row < count;) {
    char* const panel = packed + (at + row) / kPanel * room.panel_bytes;
    const int64_t output = (at + row) % kPanel;
    const int64_t together = std::min(count - row, kPanel - output);
    for (int64_t s = 0; s < room.slices(); ++s) {
      const float* const from = rows.data() + row * inputs + s * room.slice;
      void* const to = panel + s * room.slice_bytes;
      const int64_t width = std::min(room.slice, inputs - s * room.slice);
      for (int64_t k = 0; k < width; k += kAtOnce) {
        const int64_t end = std::min(k + kAtOnce, width);
        if (room.format == WeightFormat::kFp32) {
          FillFp32(from, inputs, together, k, end, static_cast<float*>(to) + output);
        } else {
          FillBf16(from, inputs, together, k, end, static_cast<uint32_t*>(to) + output);
        }
      }
    }
    row += together;
  }
}

void PackedWeights::FillBias(const MatrixView& room, int64_t at,
                             std::span<const float> biases) {
  std::ranges::transform(biases, const_cast<float*>(room.bias) + at, Flush);
}

MatrixView PackedWeights::Pack(std::span<const PlainMatrix> parts, int64_t inputs,
                               int64_t slice) {
  int64_t outputs = 0;
  bool bias = false;
  for (const PlainMatrix& part : parts) {
    outputs += part.outputs;
    bias = bias || part.bias != nullptr;
  }
  const MatrixView room = Room(outputs, inputs, bias, slice);
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
