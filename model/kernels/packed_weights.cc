// SPDX-License-Identifier: MIT
#include "model/kernels/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace mnemon {
namespace {

// Bytes of a slice of a panel.
int64_t SliceBytes(WeightFormat format, int64_t slice) {
  switch (format) {
    case WeightFormat::kFp32:
      return slice * kPanel * 4;
    case WeightFormat::kBf16:
      return (slice + 1) / 2 * kPanel * 4;
    case WeightFormat::kInt8:
      return (slice + 3) / 4 * kPanel * 4;
  }
  return 0;
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

// `inverse` [rows]: of their scales.
void FillInt8(const float* from, int64_t stride, int64_t rows, int64_t begin,
              int64_t end, const float* inverse, uint8_t* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = begin; k < end; ++k) {
      // Rounds to even: its last place is 1. Not beyond 127: amax x (127 / amax) is
      // less than 127.5.
      constexpr float kOnes = 0x1.8p23f;
      const float rounded = (Flush(from[r * stride + k]) * inverse[r] + kOnes) - kOnes;
      to[k / 4 * kPanel * 4 + r * 4 + k % 4] = static_cast<uint8_t>(
          128 + (rounded == rounded ? static_cast<int>(rounded) : 0));
    }
  }
}

// The scale of a row of weights; `inverse` is what makes int8 of them.
float RowScale(const float* row, int64_t inputs, float& inverse) {
  float most = 0;
  bool finite = true;
  for (int64_t k = 0; k < inputs; ++k) {
    const float size = std::abs(Flush(row[k]));
    finite = finite && std::isfinite(size);
    most = std::max(most, size);
  }
  inverse = finite && most > 0 ? 127.0f / most : 0.0f;
  return finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

MatrixView PanelsOf(const MatrixView& matrix, Part panels) {
  MatrixView some = matrix;
  some.outputs = std::min(matrix.outputs, panels.end * kPanel) - panels.begin * kPanel;
  some.panels =
      static_cast<const char*>(matrix.panels) + panels.begin * matrix.panel_bytes;
  if (matrix.bias != nullptr) some.bias = matrix.bias + panels.begin * kPanel;
  if (matrix.scales != nullptr) some.scales = matrix.scales + panels.begin * kPanel;
  return some;
}

uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

MatrixView PackedWeights::Room(WeightFormat format, int64_t outputs, int64_t inputs,
                               bool bias, int64_t slice) {
  MatrixView room{.outputs = outputs,
                  .inputs = inputs,
                  .slice = slice > 0 ? slice : std::min(inputs, SliceWidth(inputs)),
                  .format = format};
  if (format == WeightFormat::kInt8) {
    MNEMON_CHECK(HoldsInt8(room.slice) || room.slice >= inputs);
    room.scales = Make(room.panel_count() * kPanel);
  }
  room.slice_bytes = SliceBytes(format, room.slice);
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
    float inverse[kPanel];
    if (room.format == WeightFormat::kInt8) {
      float* const scales = const_cast<float*>(room.scales) + at + row;
      for (int64_t r = 0; r < together; ++r) {
        scales[r] = RowScale(rows.data() + (row + r) * inputs, inputs, inverse[r]);
      }
    }
    for (int64_t s = 0; s < room.slices(); ++s) {
      const float* const from = rows.data() + row * inputs + s * room.slice;
      void* const to = panel + s * room.slice_bytes;
      const int64_t width = std::min(room.slice, inputs - s * room.slice);
      for (int64_t k = 0; k < width; k += kAtOnce) {
        const int64_t end = std::min(k + kAtOnce, width);
        switch (room.format) {
          case WeightFormat::kFp32:
            FillFp32(from, inputs, together, k, end, static_cast<float*>(to) + output);
            break;
          case WeightFormat::kBf16:
            FillBf16(from, inputs, together, k, end,
                     static_cast<uint32_t*>(to) + output);
            break;
          case WeightFormat::kInt8:
            FillInt8(from, inputs, together, k, end, inverse,
                     static_cast<uint8_t*>(to) + 4 * output);
            break;
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

float* PackedWeights::Make(int64_t count, int64_t margin) {
  return memory_.TakeFloats(std::max<int64_t>(1, count + 2 * margin)) + margin;
}

}  // namespace mnemon
