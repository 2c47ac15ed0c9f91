// SPDX-License-Identifier: MIT
// Slices of packed float weights, and destinations of the sums over them. Included once
// per target by Highway.
#if defined(MNEMON_SIMD_SLICES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_SLICES_INL_H
#undef MNEMON_SIMD_SLICES_INL_H
#else
#define MNEMON_SIMD_SLICES_INL_H
#endif

#include <algorithm>

#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// A storage format, which reads two inputs k and k + 1 of a slice together, k even.
// Before(k): size of what precedes them in a slice of a panel.
struct Fp32 {
  using Stored = float;
  static int64_t Before(int64_t k) { return k * kPanel; }
  static HWY_INLINE V16 Even(const float* from) { return Load16(from); }
  static HWY_INLINE V16 Odd(const float* from) { return Load16(from + kPanel); }
};
struct Bf16 {
  using Stored = uint32_t;
  static int64_t Before(int64_t k) { return (k + 1) / 2 * kPanel; }
  static HWY_INLINE V16 Even(const uint32_t* from) { return LoadLowerBf16(from); }
  static HWY_INLINE V16 Odd(const uint32_t* from) { return LoadUpperBf16(from); }
};

HWY_INLINE bool SeesNothing(const KeyRange* key_ranges, int64_t row) {
  return key_ranges != nullptr && key_ranges[row].first > key_ranges[row].last;
}

// Stores the sums of a Linear. `factor`: multiplies the existing output.
struct LinearEnding {
  const LinearCall& call;
  const MatrixView& matrix;
  bool factor;
  bool scaled = call.scale != 1.0f || call.cap > 0.0f;

  Part slices() const { return {0, matrix.slices()}; }

  HWY_INLINE void Finish(V16 sum, int64_t row, int64_t panel) const {
    const int64_t n = panel * kPanel;
    const int64_t count = std::min<int64_t>(kPanel, matrix.outputs - n);
    float* out = call.out.row(row) + n;
    if (matrix.bias != nullptr) sum = Add(sum, Load16(matrix.bias + n));
    if (factor) {
      sum = Mul(LoadSome16(out, count), sum);
    } else {
      sum = Activated16(sum, call.act);
    }
    const bool last = factor == (call.gate != nullptr);
    if (last && scaled) {
      sum = Mul(Set16(call.scale), sum);
      if (call.cap > 0.0f) sum = Mul(Set16(call.cap), Tanh16(sum));
    }
    if (last && call.residual.data != nullptr) {
      const V16 before = LoadSome16(call.residual.row(row) + n, count);
      sum = SeesNothing(call.key_ranges, row) ? before : Add(before, sum);
    }
    StoreSome16(last ? Flush(sum) : sum, out, count);
  }
};

// Stores the sums of Parts, without scaling.
struct PartEnding {
  const PartsCall& call;
  const MatrixView& matrix;
  Part some;
  float* out;         // row 0 and the first slice
  bool each = false;  // slice by slice

  Part slices() const { return some; }

  HWY_INLINE void Finish(V16 sum, int64_t row, int64_t panel) const {
    const int64_t n = panel * kPanel;
    StoreSome16(sum, out + row * call.out.stride + n,
                std::min<int64_t>(kPanel, matrix.outputs - n));
  }
};

template <class Format>
HWY_INLINE const typename Format::Stored* SliceOf(const MatrixView& matrix,
                                                  int64_t panel, int64_t slice) {
  return reinterpret_cast<const typename Format::Stored*>(
      static_cast<const char*>(matrix.panels) + panel * matrix.panel_bytes +
      slice * matrix.slice_bytes);
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_SLICES_INL_H
