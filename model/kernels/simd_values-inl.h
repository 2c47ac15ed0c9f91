// SPDX-License-Identifier: MIT
// The second half of Attend of kernels.h: weighted sums of values. Included once per
// target by Highway.
#if defined(MNEMON_SIMD_VALUES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_VALUES_INL_H
#undef MNEMON_SIMD_VALUES_INL_H
#else
#define MNEMON_SIMD_VALUES_INL_H
#endif

#include <algorithm>

#include "model/kernels/cpu_operations.h"
#include "model/kernels/simd_scores-inl.h"
#include "model/kernels/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Adds 16 kWide numbers of each value, from `i` on, of blocks begin .. end-1, all of
// them seen, for rows of one session: each value is read once for all of them.
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

// Adds `count` <= 16 numbers of each value that is seen, from `i` on, of one block: the
// other places of a block may hold anything.
HWY_INLINE void AddSome(const AttendCall& call, const AttendUnit& unit, int64_t block,
                        int64_t i, int64_t count) {
  const float* value = Values(call, unit, block) + i;
  const float* weight = unit.Scores(block);
  const int64_t begin = block * kBlockPositions;
  const int64_t from = std::max<int64_t>(0, unit.key_range->first - begin);
  const int64_t to =
      std::min<int64_t>(kBlockPositions, unit.key_range->last - begin + 1);
  V16 sum[2] = {LoadSome16(unit.even + i, count), LoadSome16(unit.odd + i, count)};
  for (int64_t j = from; j < to; ++j) {
    V16& part = sum[j % 2];
    part = Fma(Set16(weight[j]), LoadSome16(value + j * call.width, count), part);
  }
  StoreSome16(sum[0], unit.even + i, count);
  StoreSome16(sum[1], unit.odd + i, count);
}

// Blocks begin .. end-1 for rows of one session that see all of them.
template <int kRows>
HWY_INLINE void AddValues(const AttendCall& call, const AttendUnit* units,
                          int64_t begin, int64_t end) {
  // As many sums as stay in registers.
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
      AddSome(call, units[r], b, i, call.width - i);
    }
  }
}

// The same for one row, whatever it sees of them.
HWY_INLINE void AddSeen(const AttendCall& call, const AttendUnit& unit, int64_t begin,
                        int64_t end) {
  for (int64_t block = begin; block < end; ++block) {
    if (unit.SeesAll(block)) {
      AddValues<1>(call, &unit, block, block + 1);
      continue;
    }
    for (int64_t i = 0; i < call.width; i += 16) {
      AddSome(call, unit, block, i, std::min<int64_t>(16, call.width - i));
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_VALUES_INL_H
