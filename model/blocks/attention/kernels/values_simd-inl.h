// SPDX-License-Identifier: MIT
// The second half of Attend of calls.h: weighted sums of values. Included once per
// target by Highway.
#if defined(MNEMON_SIMD_VALUES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_VALUES_INL_H
#undef MNEMON_SIMD_VALUES_INL_H
#else
#define MNEMON_SIMD_VALUES_INL_H
#endif

#include <algorithm>

#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/attention/kernels/scores_simd-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Adds 16 kWide numbers of each value, from `i` on, of blocks begin .. end-1, which are
// seen whole, for rows of one session: each value is read once for all rows.
template <int kRows, int kWide>
HWY_NOINLINE void AddWhole(const AttendCall& call, const AttendUnit* units,
                           int64_t begin, int64_t end, int64_t i) {
  const int64_t stride = call.width;
  V16 even[kRows][kWide], odd[kRows][kWide];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int w = 0; w < kWide; ++w) {
      even[r][w] = Load16(units[r].even + i + 16 * w);
      odd[r][w] = Load16(units[r].odd + i + 16 * w);
    }
  }
  for (int64_t block = begin; block < end; ++block) {
    const float* value = Values(call, units[0], block) + i;
    const float* weight[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) weight[r] = units[r].Scores(block);
    for (int j = 0; j < kBlockPositions; j += 2, value += 2 * stride) {
      V16 v[kWide];
#pragma GCC unroll 8
      for (int w = 0; w < kWide; ++w) v[w] = Load16(value + 16 * w);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V16 p = Set16(weight[r][j]);
#pragma GCC unroll 8
        for (int w = 0; w < kWide; ++w) even[r][w] = Fma(p, v[w], even[r][w]);
      }
#pragma GCC unroll 8
      for (int w = 0; w < kWide; ++w) v[w] = Load16(value + stride + 16 * w);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V16 p = Set16(weight[r][j + 1]);
#pragma GCC unroll 8
        for (int w = 0; w < kWide; ++w) odd[r][w] = Fma(p, v[w], odd[r][w]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int w = 0; w < kWide; ++w) {
      Store16(even[r][w], units[r].even + i + 16 * w);
      Store16(odd[r][w], units[r].odd + i + 16 * w);
    }
  }
}

// The positions of a block that a row sees; the other places may hold anything.
HWY_INLINE Part SeenPart(const AttendUnit& unit, int64_t block) {
  const int64_t begin = block * kBlockPositions;
  return {std::max<int64_t>(0, unit.key_range->first - begin),
          std::min<int64_t>(kBlockPositions, unit.key_range->last - begin + 1)};
}

// Adds 16 kWide numbers of each seen value of one block, from `i` on.
template <int kWide>
HWY_INLINE void AddPart(const AttendCall& call, const AttendUnit& unit, int64_t block,
                        int64_t i) {
  const Part seen = SeenPart(unit, block);
  const float* value = Values(call, unit, block) + i + seen.begin * call.width;
  const float* const weight = unit.Scores(block);
  V16 even[kWide], odd[kWide];
  for (int w = 0; w < kWide; ++w) {
    even[w] = Load16(unit.even + i + 16 * w);
    odd[w] = Load16(unit.odd + i + 16 * w);
  }
  const auto add = [&](int64_t j, V16* sums) {
    const V16 p = Set16(weight[j]);
    for (int w = 0; w < kWide; ++w) sums[w] = Fma(p, Load16(value + 16 * w), sums[w]);
    value += call.width;
  };
  int64_t j = seen.begin;
  if (j % 2 == 1 && j < seen.end) add(j++, odd);
  for (; j + 2 <= seen.end; j += 2) {
    add(j, even);
    add(j + 1, odd);
  }
  if (j < seen.end) add(j, even);
  for (int w = 0; w < kWide; ++w) {
    Store16(even[w], unit.even + i + 16 * w);
    Store16(odd[w], unit.odd + i + 16 * w);
  }
}

// The same for `count` < 16 numbers.
HWY_INLINE void AddRest(const AttendCall& call, const AttendUnit& unit, int64_t block,
                        int64_t i, int64_t count) {
  const Part seen = SeenPart(unit, block);
  const float* const value = Values(call, unit, block) + i;
  const float* const weight = unit.Scores(block);
  V16 sum[2] = {LoadSome16(unit.even + i, count), LoadSome16(unit.odd + i, count)};
  for (int64_t j = seen.begin; j < seen.end; ++j) {
    V16& part = sum[j % 2];
    part = Fma(Set16(weight[j]), LoadSome16(value + j * call.width, count), part);
  }
  StoreSome16(sum[0], unit.even + i, count);
  StoreSome16(sum[1], unit.odd + i, count);
}

// Adds blocks begin .. end-1 for rows of one session that see all of them.
template <int kRows>
HWY_INLINE void AddValues(const AttendCall& call, const AttendUnit* units,
                          int64_t begin, int64_t end) {
  // As many sums as fit into registers.
  constexpr int kWide = kRows > 1 && kParts > 1 ? 1 : 2;
  int64_t i = 0;
  for (; i + 16 * kWide <= call.width; i += 16 * kWide) {
    AddWhole<kRows, kWide>(call, units, begin, end, i);
  }
  if (kWide > 1 && i + 16 <= call.width) {
    AddWhole<kRows, 1>(call, units, begin, end, i);
    i += 16;
  }
  if (i == call.width) return;
  for (int r = 0; r < kRows; ++r) {
    for (int64_t b = begin; b < end; ++b) {
      AddRest(call, units[r], b, i, call.width - i);
    }
  }
}

// The same for one row, with any part of the blocks seen.
HWY_INLINE void AddSeen(const AttendCall& call, const AttendUnit& unit, int64_t begin,
                        int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    int64_t i = 0;
    for (; i + 32 <= call.width; i += 32) AddPart<2>(call, unit, block, i);
    for (; i + 16 <= call.width; i += 16) AddPart<1>(call, unit, block, i);
    if (i < call.width) AddRest(call, unit, block, i, call.width - i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_VALUES_INL_H
