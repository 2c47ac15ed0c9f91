// SPDX-License-Identifier: MIT
// Weights in the layout of the kernels, packed once when a model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory/slabs.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Owns the memory that views point into, which they must not outlive. Used by one
// thread until complete, immutable afterwards.
class PackedWeights {
 public:
  explicit PackedWeights(WeightFormat format) : format_(format) {}

  WeightFormat format() const { return format_; }
  int64_t bytes() const { return memory_.bytes(); }
  // The memory that all views point into.
  std::vector<std::span<const std::byte>> parts() const { return memory_.parts(); }

  // Allocates a matrix in `format`, which may differ from that of others, for Fill to
  // write, with slices of SliceWidth(inputs) or of `slice` inputs. REQUIRES: HoldsInt8
  // of its slices if the format is kInt8.
  MatrixView Room(WeightFormat format, int64_t outputs, int64_t inputs, bool bias,
                  int64_t slice = 0);
  // Writes `rows` [n, inputs], the first of which is output `at` of `room`. Safe for
  // concurrent calls with different rows.
  static void Fill(const MatrixView& room, int64_t at, std::span<const float> rows);
  // The same for bfloat16 rows. REQUIRES: `room` is bfloat16.
  static void FillBf16Rows(const MatrixView& room, int64_t at,
                           std::span<const uint16_t> rows);
  // The same for int8 rows, at most 127 in magnitude, and their scales [n]. REQUIRES:
  // the format of `room` is kInt8.
  static void FillInt8Rows(const MatrixView& room, int64_t at,
                           std::span<const int8_t> rows);
  static void FillScales(const MatrixView& room, int64_t at,
                         std::span<const float> scales);
  // The same for biases [n]. REQUIRES: `room` has biases.
  static void FillBias(const MatrixView& room, int64_t at,
                       std::span<const float> biases);
  // Allocates zeros to be filled in, with `margin` more before and after that may be
  // read.
  float* Make(int64_t count, int64_t margin = 0);

 private:
  const WeightFormat format_;
  Slabs memory_;
};

// Some panels of a matrix, as a matrix of their outputs. REQUIRES: the panels exist.
MatrixView PanelsOf(const MatrixView& matrix, Part panels);

// Whether kInt8 suits slices of this many inputs: in narrow ones, scales would take
// more than they save.
constexpr bool HoldsInt8(int64_t slice) { return slice >= 8 && slice <= kMaxInt8Slice; }

// Use of the matrix of a linear map.
struct MatrixUse {
  int64_t slice = 0;   // inputs of a slice; 0: SliceWidth
  bool exact = false;  // float32 instead of int8: rounding errors would accumulate
};

// Format of a matrix with `inputs` inputs in a model of `format`: fp32 instead of int8
// if it is to be exact, or if slices are too narrow or too wide for int8. Part of the
// meaning of "int8" in a numerics_id: kKernelRevision changes with it.
constexpr WeightFormat MatrixFormat(WeightFormat format, int64_t inputs,
                                    const MatrixUse& use) {
  const bool holds =
      !use.exact && HoldsInt8(use.slice > 0 ? use.slice : SliceWidth(inputs));
  return format == WeightFormat::kInt8 && !holds ? WeightFormat::kFp32 : format;
}

// Quantises a row of weights to int8 like Fill does: writes as many numbers, at most
// 127 in magnitude, and returns the scale (docs/numerics.md).
float QuantiseRow(std::span<const float> row, int8_t* to);

// Rounds to nearest, ties to even. NaN stays NaN.
uint16_t ToBf16(float value);

}  // namespace mnemon
