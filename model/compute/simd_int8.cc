// SPDX-License-Identifier: MIT
// Products of int8, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/compute/simd_int8.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <algorithm>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

#include "model/compute/int8_rows.h"
#include "model/compute/simd_dot-inl.h"
#include "model/compute/simd_int8-inl.h"
#include "model/compute/vector16-inl.h"
#if MNEMON_INT8_VNNI
#include <cpuid.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {
namespace {

// Tiles of several rows: as many as leave registers for the weights.
constexpr int kTilePanels = kParts == 1 ? kInt8TilePanels : 1;
template <class Dot>
constexpr int kTileRows = kParts == 1                             ? 12
                          : kParts == 2 && Dot::kInputValues == 1 ? 6
                          : kParts <= 4                           ? 4
                                                                  : 1;

// Inputs whose weights stay in the L1 cache while they are multiplied with all rows.
constexpr int64_t kDepth = 512;

// Slices of equal width.
struct Stretch {
  int64_t first = 0;  // counted from the first slice of the product
  int64_t count = 0;
  int64_t quads = 0;  // of each slice
};

// Adds to totals [kRows][kPanels][16]. A separate function, so that the sums and the
// addresses of all rows stay in registers.
template <class Dot, int kRows, int kPanels>
HWY_NOINLINE void AddTile(const Int8Product& product, const Stretch& stretch,
                          int64_t row, int64_t panel, float* totals,
                          int64_t total_stride) {
  const MatrixView& matrix = product.matrix;
  const int64_t size = matrix.panel_bytes, stride = product.room.row_bytes;
  const char* weights = static_cast<const char*>(matrix.panels) +
                        (product.panel + panel) * size +
                        (product.slices.begin + stretch.first) * matrix.slice_bytes;
  const char* in = product.in + row * stride + stretch.first * product.room.slice_bytes;
  const float* row_scales =
      product.row_scales + row * product.row_scale_stride + stretch.first;
  const float* const output_scales = product.output_scales + panel * kPanel;
  const bool begins = stretch.first == 0;
  for (int64_t s = 0; s < stretch.count; ++s) {
    Ints sum[kRows][kPanels][kParts];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Ints start = hn::Set(I(), LoadInt(in + r * stride));
#pragma GCC unroll 16
      for (int p = 0; p < kPanels * kParts; ++p) sum[r][p / kParts][p % kParts] = start;
    }
    // Three rows share one moving address, as in Linear of float32.
    constexpr int kBases = (kRows + 2) / 3;
    const char* base[kBases];
#pragma GCC unroll 16
    for (int i = 0; i < kBases; ++i) base[i] = in + 3 * i * stride + 4;
    const char* at = weights;
    for (const char* const end = at + stretch.quads * 4 * kPanel; at != end;
         at += 4 * kPanel) {
      const auto weights_of = [&](int p, int i) {
        return Dot::LoadWeights(at + p * size + i * 4 * kLanes);
      };
      if constexpr (kRows == 1) {
        const typename Dot::Inputs x = Dot::LoadInputs(base[0]);
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
          for (int i = 0; i < kParts; ++i) Dot::Add(weights_of(p, i), x, sum[0][p][i]);
        }
      } else {
        typename Dot::Weights w[kPanels][kParts];
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
          for (int i = 0; i < kParts; ++i) w[p][i] = weights_of(p, i);
        }
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const typename Dot::Inputs x = Dot::LoadInputs(base[r / 3] + r % 3 * stride);
#pragma GCC unroll 16
          for (int p = 0; p < kPanels; ++p) {
#pragma GCC unroll 4
            for (int i = 0; i < kParts; ++i) Dot::Add(w[p][i], x, sum[r][p][i]);
          }
        }
      }
#pragma GCC unroll 16
      for (int i = 0; i < kBases; ++i) {
        base[i] += 4;
        asm("" : "+r"(base[i]));
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V16 row_scale = Set16(row_scales[r * product.row_scale_stride]);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        float* const to = totals + r * total_stride + p * kPanel;
        V16 exact;
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) {
          exact.v[i] = hn::ConvertTo(F(), sum[r][p][i]);
        }
        Store16(Fma(exact, Mul(row_scale, Load16(output_scales + p * kPanel)),
                    begins && s == 0 ? Zero16() : Load16(to)),
                to);
      }
    }
    weights += matrix.slice_bytes;
    in += product.room.slice_bytes;
    ++row_scales;
  }
}

// AddTile<Dot, rows, kPanels>, rows in 1 .. kMost.
template <class Dot, int kPanels, int kMost>
HWY_INLINE void AddTileOf(int64_t rows, const Int8Product& product,
                          const Stretch& stretch, int64_t row, int64_t panel,
                          float* totals, int64_t total_stride) {
  if constexpr (kMost > 1) {
    if (rows < kMost) {
      return AddTileOf<Dot, kPanels, kMost - 1>(rows, product, stretch, row, panel,
                                                totals, total_stride);
    }
  }
  AddTile<Dot, kMost, kPanels>(product, stretch, row, panel, totals, total_stride);
}

// One row with all panels, as many at a time as possible, or all rows with a few panels
// in tiles of similar size.
template <class Dot>
void AddStretch(const Int8Product& product, const Stretch& stretch) {
  const int64_t rows = product.room.rows, total_stride = product.panels * kPanel;
  int64_t panel = 0;
  const auto add = [&](auto panels, auto most_rows) {
    constexpr int kPanels = panels(), kMost = most_rows();
    const int64_t tiles = (rows + kMost - 1) / kMost;
    for (; panel + kPanels <= product.panels; panel += kPanels) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = rows * t / tiles, next = rows * (t + 1) / tiles;
        AddTileOf<Dot, kPanels, kMost>(
            next - row, product, stretch, row, panel,
            product.totals + row * total_stride + panel * kPanel, total_stride);
      }
    }
  };
  using std::integral_constant;
  if (rows == 1) {
    constexpr int kMost = kParts == 1 ? 8 : kParts == 2 ? 4 : 2;
    if constexpr (kMost >= 8)
      add(integral_constant<int, 8>(), integral_constant<int, 1>());
    if constexpr (kMost >= 4)
      add(integral_constant<int, 4>(), integral_constant<int, 1>());
    add(integral_constant<int, 2>(), integral_constant<int, 1>());
    add(integral_constant<int, 1>(), integral_constant<int, 1>());
    return;
  }
  add(integral_constant<int, kTilePanels>(), integral_constant<int, kTileRows<Dot>>());
  add(integral_constant<int, 1>(), integral_constant<int, kTileRows<Dot>>());
}

template <class Dot>
void Multiply(const Int8Product& product) {
  const MatrixView& matrix = product.matrix;
  const int64_t count = product.slices.size();
  const int64_t together = std::max<int64_t>(1, kDepth / matrix.slice);
  for (Stretch stretch; stretch.first < count; stretch.first += stretch.count) {
    const int64_t slice = product.slices.begin + stretch.first;
    const int64_t whole = std::min(product.slices.end, matrix.inputs / matrix.slice);
    stretch.count = std::clamp<int64_t>(whole - slice, 1, together);
    stretch.quads = (Int8Room::Width(matrix, slice) + 3) / 4;
    AddStretch<Dot>(product, stretch);
  }
}

template <class Dot>
float Quantise(const float* x, int64_t count, char* to) {
  // As integers, magnitudes have the order of the floats; infinity and NaN come above
  // all.
  Ints most = hn::Zero(I());
  const Ints size = hn::Set(I(), 0x7FFFFFFF);
  for (int64_t i = 0; i < count; i += 16) {
    const V16 some = LoadSome16(x + i, count - i);
    for (int p = 0; p < kParts; ++p) {
      most = hn::Max(most, hn::And(size, hn::BitCast(I(), some.v[p])));
    }
  }
  const int32_t bits = hn::GetLane(hn::MaxOfLanes(I(), most));
  float amax;
  std::memcpy(&amax, &bits, sizeof(amax));
  const bool finite = amax <= std::numeric_limits<float>::max();
  const bool zero = !finite || amax < kSmallest;
  const Vec inverse = hn::Set(F(), zero ? 0.0f : 127.0f / amax);
  Ints sums = hn::Zero(I());
  for (int64_t i = 0; i < count; i += 16) {
    const V16 some = LoadSome16(x + i, count - i);
    Ints q[kParts];
    for (int p = 0; p < kParts; ++p) {
      // Never beyond 127: amax x (127 / amax) is less than 127.5.
      q[p] = zero ? hn::Zero(I()) : hn::NearestInt(hn::Mul(some.v[p], inverse));
      sums = hn::Add(sums, q[p]);
    }
    char* const at = to + 4 + i;
    if (count - i >= 16) {
      Dot::Store(q, at);
    } else {
      char last[16];
      Dot::Store(q, last);
      std::memcpy(at, last, (count - i + 3) / 4 * 4);
    }
  }
  const int32_t start = Dot::Start(hn::GetLane(hn::SumOfLanes(I(), sums)));
  std::memcpy(to, &start, sizeof(start));
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return zero ? 0.0f : amax / 127.0f;
}

}  // namespace

const Int8Kernels kAnyInt8 = {AnyInt8::kName, Quantise<AnyInt8>, Multiply<AnyInt8>};

#if MNEMON_INT8_VNNI
const Int8Kernels kVnniInt8 = {Vnni::kName, Quantise<Vnni>, Multiply<Vnni>};

bool HasVnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (HWY_TARGET == HWY_AVX3) {
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1) != 0;
  }
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();
