// SPDX-License-Identifier: MIT
// Weights in the layout of the kernels, packed once when a model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/slabs.h"
#include "model/compute/kernels.h"

namespace mnemon {

// Owns what views point into; they stay valid as long as it lives. One thread until it
// is complete, constant afterwards.
class PackedWeights {
 public:
  explicit PackedWeights(WeightFormat format) : format_(format) {}

  WeightFormat format() const { return format_; }
  int64_t bytes() const { return memory_.bytes(); }
  // Where all that views point to lies.
  std::vector<std::span<const std::byte>> parts() const { return memory_.parts(); }

  // Room for a matrix in `format`, which need not be that of the others, for Fill to
  // write into, with slices of SliceWidth(inputs) or of `slice` inputs. REQUIRES:
  // HoldsInt8 of its slices, where that is kInt8.
  MatrixView Room(WeightFormat format, int64_t outputs, int64_t inputs, bool bias,
                  int64_t slice = 0);
  // Writes `rows` [n, inputs], the first of which is output `at` of `room`. Safe for
  // concurrent calls with different rows.
  static void Fill(const MatrixView& room, int64_t at, std::span<const float> rows);
  // The same for rows that are bfloat16 already. REQUIRES: so is `room`.
  static void FillBf16Rows(const MatrixView& room, int64_t at,
                           std::span<const uint16_t> rows);
  // The same for rows that are int8 already, at most 127 in size, and for their scales
  // [n]. REQUIRES: the format of `room` is kInt8.
  static void FillInt8Rows(const MatrixView& room, int64_t at,
                           std::span<const int8_t> rows);
  static void FillScales(const MatrixView& room, int64_t at,
                         std::span<const float> scales);
  // The same for their biases [n]. REQUIRES: `room` has them.
  static void FillBias(const MatrixView& room, int64_t at,
                       std::span<const float> biases);
  // Zeros to be filled, with `margin` more before and behind that may be read.
  float* Make(int64_t count, int64_t margin = 0);

 private:
  const WeightFormat format_;
  Slabs memory_;
};

// Some panels of a matrix, as a matrix of their outputs. REQUIRES: it has them.
MatrixView PanelsOf(const MatrixView& matrix, Part panels);

// Inputs of a slice that kInt8 is for: in narrow ones scales would outweigh what they
// scale.
constexpr bool HoldsInt8(int64_t slice) { return slice >= 8 && slice <= kMaxInt8Slice; }

// How the matrix of a linear map is used.
struct MatrixUse {
  int64_t slice = 0;   // inputs of a slice; 0: SliceWidth
  bool exact = false;  // float32 where others are int8: what is rounded away gathers
};

// The format of a matrix of so many inputs in a model of `format`: fp32 in place of
// int8 where it is to be exact, and where slices are too narrow for int8 or too wide.
// Part of what "int8" means in a numerics_id: kKernelRevision changes with it.
constexpr WeightFormat MatrixFormat(WeightFormat format, int64_t inputs,
                                    const MatrixUse& use) {
  const bool holds =
      !use.exact && HoldsInt8(use.slice > 0 ? use.slice : SliceWidth(inputs));
  return format == WeightFormat::kInt8 && !holds ? WeightFormat::kFp32 : format;
}

// A row of weights as int8, as Fill makes them of floats: writes as many numbers, at
// most 127 in size, and returns what 1 stands for (docs/numerics.md).
float QuantiseRow(std::span<const float> row, int8_t* to);

// Nearest, ties to even. NaN stays NaN.
uint16_t ToBf16(float value);

}  // namespace mnemon
