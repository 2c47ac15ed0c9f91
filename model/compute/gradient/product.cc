// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#include "model/compute/gradient/product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/compute/gradient/product.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/compute/gradient/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Rows and panels whose sums stay in registers.
template <class Real>
constexpr int kTileRows = std::is_same_v<Real, double> ? 2
                          : kParts == 1                ? 12
                                                       : 6;
template <class Real>
constexpr int kTilePanels = std::is_same_v<Real, float>&& kParts == 1 ? 2 : 1;
// Panels of a single row: enough sums to keep the arithmetic units busy.
template <class Real>
constexpr int kRowPanels = std::is_same_v<Real, double> ? 1
                           : kParts == 1                ? 8
                                                        : 4;

// One slice of the depth of a call.
struct Slice {
  int64_t begin, count;
  bool first, last;
};

template <class Real, int kPanels>
HWY_INLINE void FinishRow(const ProductCall<Real>& call, const Slice& slice, int64_t r,
                          int64_t column, const Sixteen<Real>* sum) {
  Real* const out = call.out + r * call.out_stride + column;
  const Real* before = out;
  if (slice.first) {
    before = call.from == nullptr ? nullptr : call.from + r * call.from_stride + column;
  }
  for (int p = 0; p < kPanels; ++p) {
    const int64_t left = call.columns - column - 16 * p;
    Sixteen<Real> value = sum[p];
    if (slice.first && call.bias != nullptr) {
      value = Add(LoadSome16(call.bias + column + 16 * p, left), value);
    }
    if (before != nullptr) value = Add(LoadSome16(before + 16 * p, left), value);
    // A NaN stays.
    if (slice.last && call.relu) value = IfNegative(value, Set16(Real{0}), value);
    StoreSome16(value, out + 16 * p, left);
  }
}

// A separate function, so that the sums and the addresses of all rows stay in
// registers.
template <class Real, int kRows, int kPanels>
HWY_NOINLINE void Tile(const ProductCall<Real>& call, const Slice& slice, int64_t row,
                       int64_t panel) {
  const int64_t a_row = call.a.row, a_depth = call.a.depth, b_depth = call.b.depth,
                b_panel = call.b.panel;
  const Real* a = call.a.data + row * a_row + slice.begin * a_depth;
  const Real* b = call.b.data + panel * b_panel + slice.begin * b_depth;
  Sixteen<Real> sum[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) sum[r][p] = Set16(Real{0});
  }
  for (int64_t d = 0; d < slice.count; ++d, a += a_depth, b += b_depth) {
    Sixteen<Real> right[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      right[p] = Load16(b + p * b_panel);
      // The following panels: the hardware prefetcher stops at the end of a page.
      __builtin_prefetch(b + (kPanels + p) * b_panel, 0, 2);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Sixteen<Real> left = Set16(a[r * a_row]);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Fma(left, right[p], sum[r][p]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    FinishRow<Real, kPanels>(call, slice, row + r, panel * 16, sum[r]);
  }
}

template <class Real, int kPanels, int kRows = kTileRows<Real>>
HWY_INLINE void TileOf(int64_t rows, const ProductCall<Real>& call, const Slice& slice,
                       int64_t row, int64_t panel) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return TileOf<Real, kPanels, kRows - 1>(rows, call, slice, row, panel);
    }
  }
  Tile<Real, kRows, kPanels>(call, slice, row, panel);
}

// In tiles of similar size: a small one at the end would leave arithmetic units idle.
template <class Real, int kPanels>
void Panels(const ProductCall<Real>& call, const Slice& slice, int64_t panel) {
  constexpr int64_t kMost = kTileRows<Real>;
  const int64_t tiles = (call.rows + kMost - 1) / kMost;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = call.rows * t / tiles, next = call.rows * (t + 1) / tiles;
    TileOf<Real, kPanels>(next - row, call, slice, row, panel);
  }
}

// One row with panels begin .. end - 1, at most kPanels at a time.
template <class Real, int kPanels>
void RowOfPanels(const ProductCall<Real>& call, const Slice& slice, int64_t begin,
                 int64_t end) {
  for (; begin + kPanels <= end; begin += kPanels) {
    Tile<Real, 1, kPanels>(call, slice, 0, begin);
  }
  if constexpr (kPanels > 1) {
    if (begin < end) RowOfPanels<Real, kPanels / 2>(call, slice, begin, end);
  }
}

template <class Real>
HWY_INLINE void Product(const ProductCall<Real>& call) {
  constexpr int kMost = kTilePanels<Real>;
  const int64_t panels = (call.columns + 15) / 16;
  int64_t begin = 0;
  do {
    const int64_t count = std::min(kSliceDepth, call.depth - begin);
    const Slice slice = {.begin = begin,
                         .count = count,
                         .first = begin == 0,
                         .last = begin + count == call.depth};
    begin += count;
    if (call.rows == 1) {
      RowOfPanels<Real, kRowPanels<Real>>(call, slice, 0, panels);
      continue;
    }
    int64_t panel = 0;
    for (; panel + kMost <= panels; panel += kMost) {
      Panels<Real, kMost>(call, slice, panel);
    }
    if constexpr (kMost > 1) {
      if (panel < panels) Panels<Real, 1>(call, slice, panel);
    }
  } while (begin < call.depth);
}

void ProductFloat(const ProductCall<float>& call) { Product(call); }
void ProductDouble(const ProductCall<double>& call) { Product(call); }

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(ProductFloat);
HWY_EXPORT(ProductDouble);

void Multiply(const ProductCall<float>& call) {
  HWY_DYNAMIC_DISPATCH(ProductFloat)(call);
}
void Multiply(const ProductCall<double>& call) {
  HWY_DYNAMIC_DISPATCH(ProductDouble)(call);
}

template <class Real>
void PackedOperand<Real>::Reserve(int64_t depth, int64_t columns) {
  depth_ = depth;
  columns_ = columns;
  Grow(data_, panels() * depth * kColumnPanel);
}

template <class Real>
void PackedOperand<Real>::Fill(int64_t panel, const Real* data, int64_t row,
                               int64_t column) {
  const int64_t first = panel * kColumnPanel;
  const int64_t count = std::min(kColumnPanel, columns_ - first);
  Real* to = data_.data() + panel * depth_ * kColumnPanel;
  const Real* from = data + first * column;
  if (column == 1 && count == kColumnPanel) {
    for (int64_t d = 0; d < depth_; ++d) {
      std::copy_n(from + d * row, kColumnPanel, to + d * kColumnPanel);
    }
    return;
  }
  // Depth innermost within blocks, so that each cache line is read once when
  // transposed.
  constexpr int64_t kBlock = 16;
  for (int64_t begin = 0; begin < depth_; begin += kBlock) {
    const int64_t end = std::min(depth_, begin + kBlock);
    for (int64_t c = 0; c < kColumnPanel; ++c) {
      const Real* const at = from + c * column;
      for (int64_t d = begin; d < end; ++d) {
        to[d * kColumnPanel + c] = c < count ? at[d * row] : Real{0};
      }
    }
  }
}

template class PackedOperand<float>;
template class PackedOperand<double>;

}  // namespace mnemon
#endif
