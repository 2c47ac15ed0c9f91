// SPDX-License-Identifier: MIT
#include "model/compute/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mnemon {
namespace {

template <class Number, class Widen>
void Read(const StoredRows& part, int64_t first, int64_t rows, int64_t width, float* to,
          const Widen& widen) {
  for (int64_t r = first; r < first + rows; ++r) {
    const std::byte* from =
        part.data + r * part.row_step * static_cast<int64_t>(sizeof(Number));
    for (int64_t c = 0; c < width; ++c) {
      Number number;
      std::memcpy(&number, from, sizeof(number));
      *to++ = widen(number);
      from += part.column_step * static_cast<int64_t>(sizeof(Number));
    }
  }
}

}  // namespace

float FloatOfBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Subnormal numbers of binary16 are normal ones of binary32.
float FloatOfFp16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31, exponent = (bits >> 10) & 31,
                 fraction = bits & 1023;
  if (exponent == 0) {
    const float size = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -size : size;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

void ReadRows(const TensorView& view, int64_t first, int64_t rows, float* to) {
  const int64_t width = view.width();
  if (view.data != nullptr) {
    std::copy_n(view.data + first * width, rows * width, to);
    return;
  }
  for (const StoredRows& part : view.stored) {
    const int64_t begin = std::min(first, part.rows);
    const int64_t some = std::min(rows, part.rows - begin);
    if (some > 0) {
      switch (part.number) {
        case StoredNumber::kFp32:
          Read<float>(part, begin, some, width, to, [](float x) { return x; });
          break;
        case StoredNumber::kBf16:
          Read<uint16_t>(part, begin, some, width, to, FloatOfBf16);
          break;
        case StoredNumber::kFp16:
          Read<uint16_t>(part, begin, some, width, to, FloatOfFp16);
          break;
      }
      to += some * width;
      rows -= some;
    }
    first = std::max<int64_t>(0, first - part.rows);
  }
}

std::vector<std::span<const std::byte>> BytesOfRows(const TensorView& view,
                                                    int64_t first, int64_t rows) {
  const int64_t width = view.width();
  if (view.data != nullptr) {
    return {std::as_bytes(
        std::span(view.data + first * width, static_cast<size_t>(rows * width)))};
  }
  std::vector<std::span<const std::byte>> all;
  for (const StoredRows& part : view.stored) {
    const int64_t begin = std::min(first, part.rows);
    const int64_t some = std::min(rows, part.rows - begin);
    const int64_t size = part.number == StoredNumber::kFp32 ? 4 : 2;
    if (some > 0) {
      const int64_t last = (some - 1) * part.row_step + (width - 1) * part.column_step;
      all.emplace_back(part.data + begin * part.row_step * size,
                       static_cast<size_t>((last + 1) * size));
      rows -= some;
    }
    first = std::max<int64_t>(0, first - part.rows);
  }
  return all;
}

}  // namespace mnemon
