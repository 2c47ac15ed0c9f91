// SPDX-License-Identifier: MIT
// The first half of Attend of calls.h: scores of blocks of positions. Included once
// per target by Highway.
#if defined(MNEMON_SIMD_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_SCORES_INL_H
#undef MNEMON_SIMD_SCORES_INL_H
#else
#define MNEMON_SIMD_SCORES_INL_H
#endif

#include <cmath>

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// One row and head of attention, processed by groups of blocks.
struct AttendUnit {
  const KeyRange* key_range = nullptr;
  int64_t head = 0;
  int64_t at = 0;    // offset of the head within a row
  int64_t kept = 0;  // offset of its group within a position's keys and values
  const float* query = nullptr;
  float* scores = nullptr;  // [kGroupBlocks][16], of the group
  float* odd = nullptr;     // [K], sums over odd positions of the group
  float* even = nullptr;    // [K], over even ones; then the group's maximum and total
  V16 peak;                 // maximum score of the group, by lane

  const float* Block(int64_t block) const {
    return key_range->blocks[block - key_range->base];
  }
  float* Scores(int64_t block) const {
    return scores + block % kGroupBlocks * kBlockPositions;
  }
  bool SeesAll(int64_t block) const {
    const int64_t begin = block * kBlockPositions;
    return begin >= key_range->first && begin + kBlockPositions - 1 <= key_range->last;
  }
};

HWY_INLINE const float* Values(const AttendCall& call, const AttendUnit& unit,
                               int64_t block) {
  return unit.Block(block) + call.value_offset + unit.kept * kBlockPositions;
}

// The row of the relative tables for the first position of a block; later ones follow.
HWY_INLINE int64_t TableRow(const AttendCall& call, const AttendUnit& unit,
                            int64_t block) {
  return call.zero_row - unit.key_range->query + block * kBlockPositions;
}

HWY_INLINE bool IsBiased(const AttendCall& call) {
  return call.fold_offset >= 0 || call.relative_bias != nullptr ||
         call.slopes != nullptr || call.cap > 0.0f;
}

// Scaled, with all biases, or capped.
HWY_INLINE V16 AddBiases(const AttendCall& call, const AttendUnit& unit, int64_t block,
                         V16 score) {
  if (call.fold_offset >= 0) {
    score = Add(score, Load16(unit.Block(block) + call.fold_offset +
                              unit.head * kBlockPositions));
  }
  if (call.relative_bias != nullptr) {
    score = Add(score, Load16(call.relative_bias + unit.head * call.table_rows +
                              TableRow(call, unit, block)));
  }
  score = Mul(score, Set16(call.scale));
  if (call.cap > 0.0f) score = Mul(Tanh16(score), Set16(call.cap));
  if (call.slopes != nullptr) {
    const float nearest =
        static_cast<float>(unit.key_range->query - block * kBlockPositions);
    V16 distance;
    for (int p = 0; p < kParts; ++p) {
      distance.v[p] =
          hn::Sub(hn::Set(F(), nearest), hn::Iota(F(), static_cast<float>(p * kLanes)));
    }
    score = Fnma(Set16(call.slopes[unit.head]), distance, score);
  }
  return score;
}

// Positions that are not seen score -infinity.
HWY_INLINE V16 Mask(const AttendUnit& unit, int64_t block, const V16& score) {
  if (unit.SeesAll(block)) return score;
  const int64_t begin = block * kBlockPositions;
  const auto first = static_cast<float>(unit.key_range->first - begin);
  const auto last = static_cast<float>(unit.key_range->last - begin);
  V16 out;
  for (int p = 0; p < kParts; ++p) {
    const Vec place = hn::Iota(F(), static_cast<float>(p * kLanes));
    const auto seen =
        hn::And(hn::Ge(place, hn::Set(F(), first)), hn::Le(place, hn::Set(F(), last)));
    out.v[p] = hn::IfThenElse(seen, score.v[p], hn::Set(F(), -HUGE_VALF));
  }
  return out;
}

// Computes scores of `kBlocks` blocks from `block` on, for one head and rows of one
// session: each key is read once for all rows. `kWhole`: all rows see the whole blocks.
template <int kRows, int kBlocks, bool kWhole, bool kRelative>
HWY_INLINE void ScoreBlocks(const AttendCall& call, AttendUnit* units, int64_t block) {
  const int64_t width = call.width, table_rows = call.table_rows;
  const float* key[kBlocks];
  const float* query[kRows];
  const float* table[kRows];
  V16 score[kRows][kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    key[b] =
        units[0].Block(block + b) + call.key_offset + units[0].kept * kBlockPositions;
  }
  for (int r = 0; r < kRows; ++r) {
    query[r] = units[r].query;
    table[r] = kRelative ? call.relative_key + units[r].at * table_rows +
                               TableRow(call, units[r], block)
                         : nullptr;
    for (int b = 0; b < kBlocks; ++b) score[r][b] = Zero16();
  }
  for (int64_t i = 0; i < width; ++i) {
    V16 q[kRows];
    for (int r = 0; r < kRows; ++r) q[r] = Set16(query[r][i]);
    // Key by key: all keys at once would leave no registers for the scores.
    for (int b = 0; b < kBlocks; ++b) {
      const V16 k = Load16(key[b] + i * kBlockPositions);
      for (int r = 0; r < kRows; ++r) {
        V16 both = k;
        if constexpr (kRelative) {
          both = Add(both, Load16(table[r] + i * table_rows + b * kBlockPositions));
        }
        score[r][b] = Fma(q[r], both, score[r][b]);
      }
    }
  }
  const bool biased = IsBiased(call);
  const V16 scale = Set16(call.scale);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    AttendUnit& unit = units[r];
    float* const to = unit.Scores(block);  // scores of a group are contiguous
    V16 peak = unit.peak;
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) {
      V16 done = biased ? AddBiases(call, unit, block + b, score[r][b])
                        : Mul(score[r][b], scale);
      if constexpr (!kWhole) done = Mask(unit, block + b, done);
      Store16(done, to + b * kBlockPositions);
      peak = Max(peak, done);
    }
    unit.peak = peak;
  }
}

// The same for blocks begin .. end-1 of a group; a separate function so that the sums
// stay in registers.
template <int kRows, bool kWhole, bool kRelative>
HWY_NOINLINE void ScoreRange(const AttendCall& call, AttendUnit* units, int64_t begin,
                             int64_t end) {
  constexpr int kAtOnce = kRows * kParts > 2 ? 2 : 4;
  if constexpr (kWhole) {
    for (; begin + kAtOnce <= end; begin += kAtOnce) {
      ScoreBlocks<kRows, kAtOnce, kWhole, kRelative>(call, units, begin);
    }
  }
  for (; begin < end; ++begin) {
    ScoreBlocks<kRows, 1, kWhole, kRelative>(call, units, begin);
  }
}

template <int kRows, bool kWhole>
HWY_INLINE void Score(const AttendCall& call, AttendUnit* units, int64_t begin,
                      int64_t end) {
  if (begin >= end) return;
  if (call.relative_key != nullptr) {
    ScoreRange<kRows, kWhole, true>(call, units, begin, end);
  } else {
    ScoreRange<kRows, kWhole, false>(call, units, begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_SCORES_INL_H
