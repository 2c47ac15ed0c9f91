// SPDX-License-Identifier: MIT
// Weights and carries without torch: names, shapes and numbers, which may still be
// loading.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mnemon {

// Number format in a file.
enum class StoredNumber : uint8_t { kFp32, kBf16, kFp16 };
float FloatOfBf16(uint16_t bits);
float FloatOfFp16(uint16_t bits);

// Rows in a file: number c of row r is r row_step + c column_step numbers after `data`,
// at any address.
struct StoredRows {
  const std::byte* data = nullptr;
  StoredNumber number = StoredNumber::kFp32;
  int64_t rows = 0;
  int64_t row_step = 0, column_step = 1;
};

// A view of a row-major tensor: float32 or, as a matrix [out, in], int8. Its owner must
// keep it alive and unchanged while the view is used.
struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
  // Alternative to `data`: numbers of at most 127 in magnitude, and the value of 1 for
  // each row, [out] float32 at any address.
  const int8_t* int8 = nullptr;
  const std::byte* scales = nullptr;
  // Alternative to `data`: rows of a file, in consecutive parts. The numbers of a
  // vector are rows of one number.
  std::vector<StoredRows> stored;

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t width() const { return static_cast<int64_t>(count()) / rows(); }
  size_t count() const {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return count;
  }
  std::span<const float> values() const { return {data, count()}; }
};

// Reads rows of a view of floats, in any storage, as float32. REQUIRES: the rows exist.
void ReadRows(const TensorView& view, int64_t first, int64_t rows, float* to);
// Whether all its numbers are stored in bfloat16.
bool IsStoredBf16(const TensorView& view);
// Like ReadRows, in bfloat16. REQUIRES: IsStoredBf16.
void ReadBf16Rows(const TensorView& view, int64_t first, int64_t rows, uint16_t* to);
// The bytes that these functions read for the same rows.
std::vector<std::span<const std::byte>> BytesOfRows(const TensorView& view,
                                                    int64_t first, int64_t rows);

// Whether no number is NaN or infinite. Free of branches, so that the loop is
// vectorised.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t found = 0;
  for (const float x : values) {
    found |=
        static_cast<uint32_t>((std::bit_cast<uint32_t>(x) & kExponent) == kExponent);
  }
  return found == 0;
}

// Name and shape that a tensor must have.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
  bool int8 = false;       // false: float32
  bool quantises = false;  // a matrix that is int8 if the model is
};

using TensorViews = std::vector<TensorView>;

// Access to weights that are still being read while they are packed, best in the order
// of addresses. Empty functions: all weights are loaded and stay. Called by several
// threads at once.
struct WeightStream {
  // Waits until everything before `end` is loaded. What could not be read is zeros; the
  // reader detects this.
  std::function<void(const void* end)> await;
  // Tells that nothing before `begin` is read any more.
  std::function<void(const void* begin)> release_before;
};

}  // namespace mnemon
