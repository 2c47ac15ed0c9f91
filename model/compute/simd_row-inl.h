// SPDX-License-Identifier: MIT
// The product of one row with panels of float weights. Included once per target by
// Highway.
#if defined(MNEMON_SIMD_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_ROW_INL_H
#undef MNEMON_SIMD_ROW_INL_H
#else
#define MNEMON_SIMD_ROW_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "model/compute/simd_slices-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Panels that one row keeps in flight. Four chains keep the units of AVX-512 busy; with
// eight an AMD Zen 4 reads fp32 2 % (XS) to 5 % (S) slower, and bf16, which it also has
// to widen, 2 % (XS) faster. Scalar targets have no chains.
template <class Format>
constexpr int kRowPanels = kParts == 16                   ? 1
                           : kParts > 1                   ? 6
                           : std::is_same_v<Format, Fp32> ? 4
                                                          : 8;

// Sums of one row over slice `s` with `kPanels` panels at once.
template <class Format, int kPanels>
HWY_INLINE void AddSlice(const float* x, const MatrixView& matrix, int64_t panel,
                         int64_t s, V16* sum) {
  const int64_t begin = s * matrix.slice;
  const int64_t width = std::min(matrix.slice, matrix.inputs - begin);
  const int64_t size =
      matrix.panel_bytes / static_cast<int64_t>(sizeof(typename Format::Stored));
  const auto* at = SliceOf<Format>(matrix, panel, s);
  x += begin;
  for (int p = 0; p < kPanels; ++p) sum[p] = Zero16();
  const auto add_two = [&](int64_t k) {
    const V16 even = Set16(x[k]), odd = Set16(x[k + 1]);
    for (int p = 0; p < kPanels; ++p) {
      sum[p] = Fma(even, Format::Even(at + p * size), sum[p]);
      sum[p] = Fma(odd, Format::Odd(at + p * size), sum[p]);
    }
    at += Format::Before(2);
  };
  constexpr int64_t kUsual = SliceWidth(1);
  if (width == kUsual) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kUsual; k += 2) add_two(k);
    return;
  }
  int64_t k = 0;
  for (; k + 2 <= width; k += 2) add_two(k);
  if (k == width) return;
  const V16 even = Set16(x[k]);
  for (int p = 0; p < kPanels; ++p) {
    sum[p] = Fma(even, Format::Even(at + p * size), sum[p]);
  }
}

template <class Format, int kPanels, class Ending>
HWY_INLINE void RowPanels(const float* x, int64_t panel, const Ending& ending) {
  V16 total[kPanels], sum[kPanels];
  const Part slices = ending.slices();
  if constexpr (std::is_same_v<Ending, PartEnding>) {
    if (ending.each) {
      PartEnding one = ending;
      for (int64_t s = slices.begin; s < slices.end; ++s) {
        AddSlice<Format, kPanels>(x, ending.matrix, panel, s, sum);
        for (int p = 0; p < kPanels; ++p) one.Finish(sum[p], 0, panel + p);
        one.out += ending.call.part_stride;
      }
      return;
    }
  }
  AddSlice<Format, kPanels>(x, ending.matrix, panel, slices.begin, total);
  for (int64_t s = slices.begin + 1; s < slices.end; ++s) {
    AddSlice<Format, kPanels>(x, ending.matrix, panel, s, sum);
    for (int p = 0; p < kPanels; ++p) total[p] = Add(total[p], sum[p]);
  }
  for (int p = 0; p < kPanels; ++p) ending.Finish(total[p], 0, panel + p);
}

// RowPanels<Format, panels>, panels in 1 .. kMost.
template <class Format, int kMost, class Ending>
HWY_INLINE void RowPanelsOf(int64_t panels, const float* x, int64_t panel,
                            const Ending& ending) {
  if constexpr (kMost > 1) {
    if (panels < kMost) {
      return RowPanelsOf<Format, kMost - 1>(panels, x, panel, ending);
    }
  }
  RowPanels<Format, kMost>(x, panel, ending);
}

// In groups of similar size: a small one at the end would leave arithmetic units idle.
template <class Format, class Ending>
void OneRow(const float* x, int64_t begin, int64_t end, const Ending& ending) {
  constexpr int kMost = kRowPanels<Format>;
  const int64_t panels = end - begin, groups = (panels + kMost - 1) / kMost;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t first = panels * g / groups, next = panels * (g + 1) / groups;
    RowPanelsOf<Format, kMost>(next - first, x, begin + first, ending);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_ROW_INL_H
