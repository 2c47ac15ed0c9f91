// SPDX-License-Identifier: MIT
// Weights and carries as the rest of the system sees them: names, shapes and numbers,
// without torch, perhaps still being read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mnemon {

// How a file stores a number.
enum class StoredNumber : uint8_t { kFp32, kBf16, kFp16 };
float FloatOfBf16(uint16_t bits);
float FloatOfFp16(uint16_t bits);

// Rows as a file has them: number c of row r lies r row_step + c column_step numbers
// behind `data`, at any address.
struct StoredRows {
  const std::byte* data = nullptr;
  StoredNumber number = StoredNumber::kFp32;
  int64_t rows = 0;
  int64_t row_step = 0, column_step = 1;
};

// A view of a row-major tensor, float32 or, as a matrix [out, in], int8, whose owner
// keeps it alive and unchanged for as long as the view is used.
struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data = nullptr;
  // In place of `data`: numbers of at most 127 in size, and what 1 stands for, [out]
  // float32 at any address.
  const int8_t* int8 = nullptr;
  const std::byte* scales = nullptr;
  // In place of `data`: rows of a file, those of one part below those of another. The
  // numbers of a vector are rows of one number.
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

// Rows of a view of floats, stored in whatever way, as float32. REQUIRES: it has them.
void ReadRows(const TensorView& view, int64_t first, int64_t rows, float* to);
// Whether all of its numbers are stored in bfloat16.
bool IsStoredBf16(const TensorView& view);
// The same as ReadRows, as they are. REQUIRES: IsStoredBf16.
void ReadBf16Rows(const TensorView& view, int64_t first, int64_t rows, uint16_t* to);
// What these read then.
std::vector<std::span<const std::byte>> BytesOfRows(const TensorView& view,
                                                    int64_t first, int64_t rows);

// Whether none is NaN or infinite. Without a branch, so that the loop is compiled to
// vector instructions.
inline bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F800000;
  uint32_t found = 0;
  for (const float x : values) {
    found |=
        static_cast<uint32_t>((std::bit_cast<uint32_t>(x) & kExponent) == kExponent);
  }
  return found == 0;
}

// What a tensor is to be.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
  bool int8 = false;       // else float32
  bool quantises = false;  // a matrix that is int8 where the model is
};

using TensorViews = std::vector<TensorView>;

// How weights that are read while they are packed are waited for and given back: in the
// order of their addresses, best. Empty functions: all is there and stays. Called by
// several threads at once.
struct WeightStream {
  // Waits until what lies before `end` is there. What could not be read is zeros, which
  // whoever reads finds out.
  std::function<void(const void* end)> await;
  // What lies before `begin` is read no more.
  std::function<void(const void* begin)> release_before;
};

}  // namespace mnemon
