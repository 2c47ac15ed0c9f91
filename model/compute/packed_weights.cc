// SPDX-License-Identifier: MIT
#include "model/compute/packed_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

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

// Inputs begin .. end-1 of some rows of one slice, interleaved.
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

// Flushes a number given by its bits.
uint16_t FlushBf16(uint16_t bits) {
  constexpr uint32_t kSign = 0x8000;
  constexpr uint32_t kLeast = std::bit_cast<uint32_t>(kSmallest) >> 16;
  return (bits & ~kSign) < kLeast ? uint16_t{0} : bits;
}

// Two inputs form a word, so `begin` is even.
void FillStoredBf16(const uint16_t* from, int64_t stride, int64_t rows, int64_t begin,
                    int64_t end, uint32_t* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = begin; k < end; k += 2) {
      const uint32_t first = FlushBf16(from[r * stride + k]);
      const uint32_t second = k + 1 < end ? FlushBf16(from[r * stride + k + 1]) : 0;
      to[k / 2 * kPanel + r] = first | second << 16;
    }
  }
}

struct Quad {
  uint8_t weight[4];
};
void FillInt8(const int8_t* from, int64_t stride, int64_t rows, int64_t begin,
              int64_t end, Quad* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = begin; k < end; ++k) {
      to[k / 4 * kPanel + r].weight[k % 4] =
          static_cast<uint8_t>(128 + from[r * stride + k]);
    }
  }
}

// Rows of one panel together, a few inputs at a time, so that reads and writes stay in
// the L1 cache. `fill`: one of the functions above.
template <class Weight, class Stored>
void EachPiece(const MatrixView& room, int64_t at, std::span<const Weight> rows,
               void (*fill)(const Weight*, int64_t, int64_t, int64_t, int64_t,
                            Stored*)) {
  constexpr int64_t kAtOnce = 16;
  const int64_t inputs = room.inputs;
  const int64_t count = static_cast<int64_t>(rows.size()) / inputs;
  char* const packed = static_cast<char*>(const_cast<void*>(room.panels));
  for (int64_t row = 0; row < count;) {
    char* const panel = packed + (at + row) / kPanel * room.panel_bytes;
    const int64_t output = (at + row) % kPanel;
    const int64_t together = std::min(count - row, kPanel - output);
    for (int64_t s = 0; s < room.slices(); ++s) {
      const Weight* const from = rows.data() + row * inputs + s * room.slice;
      const int64_t width = std::min(room.slice, inputs - s * room.slice);
      for (int64_t k = 0; k < width; k += kAtOnce) {
        fill(from, inputs, together, k, std::min(k + kAtOnce, width),
             reinterpret_cast<Stored*>(panel + s * room.slice_bytes) + output);
      }
    }
    row += together;
  }
}

}  // namespace

float QuantiseRow(std::span<const float> row, int8_t* to) {
  float most = 0;
  bool finite = true;
  for (const float weight : row) {
    const float size = std::abs(Flush(weight));
    finite = finite && std::isfinite(size);
    most = std::max(most, size);
  }
  const float inverse = finite && most > 0 ? 127.0f / most : 0.0f;
  for (size_t k = 0; k < row.size(); ++k) {
    // Rounds to even: its last place is 1. Never beyond 127: amax x (127 / amax) is
    // less than 127.5.
    constexpr float kOnes = 0x1.8p23f;
    const float rounded = (Flush(row[k]) * inverse + kOnes) - kOnes;
    to[k] = static_cast<int8_t>(rounded == rounded ? static_cast<int>(rounded) : 0);
  }
  return finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN();
}

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
  if (room.format == WeightFormat::kFp32) return EachPiece(room, at, rows, FillFp32);
  if (room.format == WeightFormat::kBf16) return EachPiece(room, at, rows, FillBf16);
  const auto width = static_cast<size_t>(room.inputs);
  std::vector<int8_t> some(kPanel * width);
  while (!rows.empty()) {
    const size_t count = std::min<size_t>(kPanel, rows.size() / width);
    float scales[kPanel];
    for (size_t r = 0; r < count; ++r) {
      scales[r] = QuantiseRow(rows.subspan(r * width, width), some.data() + r * width);
    }
    FillInt8Rows(room, at, {some.data(), count * width});
    FillScales(room, at, {scales, count});
    rows = rows.subspan(count * width);
    at += static_cast<int64_t>(count);
  }
}

void PackedWeights::FillBf16Rows(const MatrixView& room, int64_t at,
                                 std::span<const uint16_t> rows) {
  EachPiece(room, at, rows, FillStoredBf16);
}

void PackedWeights::FillInt8Rows(const MatrixView& room, int64_t at,
                                 std::span<const int8_t> rows) {
  EachPiece(room, at, rows, FillInt8);
}

void PackedWeights::FillScales(const MatrixView& room, int64_t at,
                               std::span<const float> scales) {
  std::ranges::copy(scales, const_cast<float*>(room.scales) + at);
}

void PackedWeights::FillBias(const MatrixView& room, int64_t at,
                             std::span<const float> biases) {
  std::ranges::transform(biases, const_cast<float*>(room.bias) + at, Flush);
}

float* PackedWeights::Make(int64_t count, int64_t margin) {
  return memory_.TakeFloats(std::max<int64_t>(1, count + 2 * margin)) + margin;
}

}  // namespace mnemon
