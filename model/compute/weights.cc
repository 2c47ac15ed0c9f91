// SPDX-License-Identifier: MIT
#include "model/compute/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mnemon {
namespace {

template <class Number, class To, class Widen>
void Read(const StoredRows& part, int64_t first, int64_t rows, int64_t width, To* to,
          const Widen& widen) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(Number));
  const auto read_row = [&](const std::byte* from, int64_t step) {
    for (int64_t c = 0; c < width; ++c) {
      Number number;
      std::memcpy(&number, from + c * step, sizeof(number));
      to[c] = widen(number);
    }
    to += width;
  };
  for (int64_t r = first; r < first + rows; ++r) {
    const std::byte* const from = part.data + r * part.row_step * kSize;
    if (part.column_step == 1) {
      read_row(from, kSize);  // a loop with a step known to the compiler
    } else {
      read_row(from, part.column_step * kSize);
    }
  }
}

// Calls read(part, first row of it, rows, to) for the parts that contain some of the
// rows.
template <class To, class ReadPart>
void EachPart(const TensorView& view, int64_t first, int64_t rows, To* to,
              const ReadPart& read) {
  for (const StoredRows& part : view.stored) {
    const int64_t begin = std::min(first, part.rows);
    const int64_t some = std::min(rows, part.rows - begin);
    if (some > 0) {
      read(part, begin, some, to);
      to += some * view.width();
      rows -= some;
    }
    first = std::max<int64_t>(0, first - part.rows);
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
  EachPart(view, first, rows, to,
           [width](const StoredRows& part, int64_t begin, int64_t some, float* out) {
             switch (part.number) {
               case StoredNumber::kFp32:
                 return Read<float>(part, begin, some, width, out,
                                    [](float x) { return x; });
               case StoredNumber::kBf16:
                 return Read<uint16_t>(part, begin, some, width, out, FloatOfBf16);
               case StoredNumber::kFp16:
                 return Read<uint16_t>(part, begin, some, width, out, FloatOfFp16);
             }
           });
}

bool IsStoredBf16(const TensorView& view) {
  return !view.stored.empty() &&
         std::ranges::all_of(view.stored, [](const StoredRows& part) {
           return part.number == StoredNumber::kBf16;
         });
}

void ReadBf16Rows(const TensorView& view, int64_t first, int64_t rows, uint16_t* to) {
  const int64_t width = view.width();
  EachPart(view, first, rows, to,
           [width](const StoredRows& part, int64_t begin, int64_t some, uint16_t* out) {
             Read<uint16_t>(part, begin, some, width, out,
                            [](uint16_t x) { return x; });
           });
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
