// SPDX-License-Identifier: MIT
// Linear and Parts of kernels.h with an int8 matrix, except for storing results.
// Included once per target by Highway.
#if defined(MNEMON_SIMD_INT8_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_INT8_LINEAR_INL_H
#undef MNEMON_SIMD_INT8_LINEAR_INL_H
#else
#define MNEMON_SIMD_INT8_LINEAR_INL_H
#endif

#include <algorithm>
#include <array>

#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"
#include "model/compute/simd_int8-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Some slices of some rows in int8.
class Int8Rows {
 public:
  // `memory`: room.floats().
  Int8Rows(const Int8Kernels& kernels, int64_t rows, const MatrixView& matrix,
           Part slices, float* memory)
      : kernels_(kernels),
        matrix_(matrix),
        slices_(slices),
        room_(rows, matrix, slices),
        bytes_(reinterpret_cast<char*>(memory)),
        scales_(memory + rows * room_.row_bytes / 4) {}

  const float* scales(int64_t row) const { return scales_ + row * slices_.size(); }
  // End of the memory in use.
  float* end() const { return scales_ + room_.rows * room_.slices; }

  // `x`: all inputs of the row.
  void Set(int64_t row, const float* x) {
    for (int64_t s = 0; s < room_.slices; ++s) {
      const int64_t slice = slices_.begin + s;
      scales_[row * room_.slices + s] =
          kernels_.quantise(x + slice * matrix_.slice, Int8Room::Width(matrix_, slice),
                            bytes_ + row * room_.row_bytes + s * room_.slice_bytes);
    }
  }

  // Multiplies by a matrix with these slices. Without `scaled`, totals are sums of
  // integers of one slice.
  template <class Ending>
  void Multiply(Part slices, bool scaled, Share share, float* totals,
                const Ending& ending) const {
    static constexpr auto kOnes = [] {
      std::array<float, kInt8RowPanels* kPanel> ones = {};
      ones.fill(1);
      return ones;
    }();
    const MatrixView& matrix = ending.matrix;
    const int64_t most = room_.rows == 1 ? kInt8RowPanels : kInt8TilePanels;
    const int64_t panels = matrix.panel_count(), end = share.end(panels);
    const int64_t skipped = slices.begin - slices_.begin;
    for (int64_t panel = share.begin(panels); panel < end; panel += most) {
      const int64_t count = std::min(most, end - panel);
      kernels_.multiply(
          {.room = room_,
           .in = bytes_ + skipped * room_.slice_bytes,
           .row_scales = scaled ? scales_ + skipped : kOnes.data(),
           .row_scale_stride = scaled ? room_.slices : 0,
           .matrix = matrix,
           .slices = slices,
           .panel = panel,
           .panels = count,
           .output_scales = scaled ? matrix.scales + panel * kPanel : kOnes.data(),
           .totals = totals});
      for (int64_t r = 0; r < room_.rows; ++r) {
        for (int64_t p = 0; p < count; ++p) {
          ending.Finish(Load16(totals + (r * count + p) * kPanel), r, panel + p);
        }
      }
    }
  }

 private:
  const Int8Kernels& kernels_;
  const MatrixView& matrix_;
  const Part slices_;
  const Int8Room room_;
  char* const bytes_;
  float* const scales_;
};

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_INT8_LINEAR_INL_H
