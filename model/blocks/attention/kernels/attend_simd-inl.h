// SPDX-License-Identifier: MIT
// Attend of calls.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_ATTEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_ATTEND_INL_H
#undef MNEMON_SIMD_ATTEND_INL_H
#else
#define MNEMON_SIMD_ATTEND_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/attention/kernels/scores_simd-inl.h"
#include "model/blocks/attention/kernels/values_simd-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Most rows of one session that share reads, limited by registers.
constexpr int kSharedRows = kParts == 1 ? 4 : 2;

// Some rows of one session, some heads of each. Works block by block over the heads,
// whose keys are contiguous: memory delivers long stretches fast.
template <int kRows>
class AttendTile {
 public:
  static constexpr int64_t kHeads = kAttendUnits / kRows;

  // `heads` <= kHeads heads, starting at `head`.
  AttendTile(const AttendCall& call, int64_t row, int64_t head, int64_t heads,
             float* scratch)
      : call_(call), heads_(heads), low_(call.key_ranges[row].first) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int r = 0; r < kRows; ++r) {
        AttendUnit& unit = units_[h][r];
        unit.key_range = &call.key_ranges[row + r];
        unit.head = head + h;
        unit.at = unit.head * call.width;
        unit.kept = call.KeptAt(unit.head);
        unit.query = call.query.row(row + r) + call.QueryAt(unit.head);
        Fetch(unit.query, call.width);
        unit.scores = scratch;
        unit.odd = scratch + kGroupBlocks * kBlockPositions;
        unit.even = unit.odd;  // the first group's comes after it
        out_[h][r] = call.out.row(row + r) + unit.at;
        scratch += AttendUnitFloats(call.width, call.groups);
        low_ = std::min(low_, unit.key_range->first);
        high_ = std::max(high_, unit.key_range->last);
      }
    }
  }

  void Run() {
    for (int64_t group = low_ / kBlockPositions / kGroupBlocks;
         group * kGroupBlocks * kBlockPositions <= high_; ++group) {
      FindBlocks(group * kGroupBlocks);
      Scores();
      for (int64_t h = 0; h < heads_; ++h) {
        for (int r = 0; r < kRows; ++r) {
          if (begin_[r] < end_[r]) Weigh(units_[h][r], begin_[r], end_[r]);
        }
      }
      Values();
      for (int64_t h = 0; h < heads_; ++h) {
        for (int r = 0; r < kRows; ++r) {
          if (begin_[r] < end_[r]) EndGroup(units_[h][r]);
        }
      }
    }
    for (int64_t h = 0; h < heads_; ++h) {
      for (int r = 0; r < kRows; ++r) Finish(units_[h][r], out_[h][r]);
    }
  }

 private:
  // Finds the blocks of a group that each row sees, and those that all rows see whole.
  void FindBlocks(int64_t first) {
    const int64_t last = first + kGroupBlocks;
    common_begin_ = first;
    common_end_ = last;
    for (int r = 0; r < kRows; ++r) {
      const KeyRange& key_range = *units_[0][r].key_range;
      const auto in_group = [&](int64_t block) {
        return std::clamp(block, first, last);
      };
      const int64_t past = key_range.last / kBlockPositions + 1;
      const bool any = key_range.first <= key_range.last;
      begin_[r] = in_group(key_range.first / kBlockPositions);
      end_[r] = any ? in_group(past) : begin_[r];
      common_begin_ =
          std::max(common_begin_,
                   in_group((key_range.first + kBlockPositions - 1) / kBlockPositions));
      common_end_ = std::min(
          common_end_, any ? in_group((key_range.last + 1) / kBlockPositions) : first);
    }
    common_end_ = std::max(common_begin_, common_end_);
  }

  // Calls alone(h, r, begin, end) for what a row sees before and after the common
  // blocks, together(h, begin, end) for the common blocks.
  template <class Alone, class Together>
  void Walk(const Alone& alone, const Together& together) {
    constexpr int64_t kStep = kRows == 1 ? 4 : kGroupBlocks;
    const auto each = [&](const auto& range) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int r = 0; r < kRows; ++r) {
          const auto [begin, end] = range(r);
          if (begin < end) alone(units_[h][r], begin, end);
        }
      }
    };
    each([&](int r) { return std::pair(begin_[r], std::min(end_[r], common_begin_)); });
    for (int64_t b = common_begin_; b < common_end_; b += kStep) {
      for (int64_t h = 0; h < heads_; ++h) {
        together(units_[h], b, std::min(b + kStep, common_end_));
      }
    }
    each([&](int r) { return std::pair(std::max(begin_[r], common_end_), end_[r]); });
  }

  void Scores() {
    for (int64_t h = 0; h < heads_; ++h) {
      for (AttendUnit& unit : units_[h]) unit.peak = Set16(-HUGE_VALF);
    }
    Walk([&](AttendUnit& unit, int64_t begin,
             int64_t end) { Score<1, false>(call_, &unit, begin, end); },
         [&](AttendUnit* units, int64_t begin, int64_t end) {
           Score<kRows, true>(call_, units, begin, end);
         });
  }

  // Turns scores of blocks begin .. end-1 into weights, e^(score - maximum).
  void Weigh(AttendUnit& unit, int64_t begin, int64_t end) {
    const float most = Max16(unit.peak);
    V16 total = Zero16();
    for (int64_t block = begin; block < end; ++block) {
      float* const scores = unit.Scores(block);
      const V16 e = Exp16(Sub(Load16(scores), Set16(most)));
      Store16(e, scores);
      total = Add(total, e);
    }
    unit.even += AttendGroupFloats(call_.width);
    std::fill_n(unit.even, call_.width, 0.0f);
    std::fill_n(unit.odd, call_.width, 0.0f);
    float* const group = unit.even + AttendGroupFloats(call_.width) - 16;
    group[0] = most;
    group[1] = Sum16(total);
  }

  void Values() {
    Walk([&](AttendUnit& unit, int64_t begin,
             int64_t end) { AddSeen(call_, unit, begin, end); },
         [&](AttendUnit* units, int64_t begin, int64_t end) {
           AddValues<kRows>(call_, units, begin, end);
         });
  }

  void EndGroup(const AttendUnit& unit) {
    for (int64_t i = 0; i < call_.width; i += 16) {
      const int64_t left = call_.width - i;
      StoreSome16(Add(LoadSome16(unit.even + i, left), LoadSome16(unit.odd + i, left)),
                  unit.even + i, left);
    }
  }

  // Combines the groups of a unit; zeros if there are none. With a single group the
  // factor would be 1.
  void Finish(const AttendUnit& unit, float* out) {
    const int64_t width = call_.width, size = AttendGroupFloats(width);
    const int64_t groups = (unit.even - unit.odd) / size;
    if (groups == 0) {
      std::fill_n(out, width, 0.0f);
      return;
    }
    float* const first = unit.odd + size;
    const int64_t facts = size - 16;
    float total = first[facts + 1];
    if (groups > 1) total = Combine(first, groups);
    const V16 scale = Set16(1.0f / total);
    const float* const gate =
        call_.gate_offset > 0 ? unit.query + call_.gate_offset : nullptr;
    for (int64_t i = 0; i < width; i += 16) {
      const int64_t left = width - i;
      V16 y = Mul(LoadSome16(first + i, left), scale);
      if (gate != nullptr) y = Mul(y, Sigmoid16(LoadSome16(gate + i, left)));
      StoreSome16(Flush(y), out + i, left);
    }
  }

  // Sums the groups into the first; returns the total of the weights.
  float Combine(float* first, int64_t groups) {
    const int64_t width = call_.width, size = AttendGroupFloats(width);
    const int64_t facts = size - 16;
    float most = first[facts];
    for (int64_t g = 1; g < groups; ++g) {
      const float one = first[g * size + facts];
      most = one > most ? one : most;
    }
    V16 total = Zero16();
    for (int64_t g = 0; g < groups; ++g) {
      const float* const group = first + g * size;
      const V16 factor = Exp16(Set16(group[facts] - most));
      total = Fma(factor, Set16(group[facts + 1]), total);
      for (int64_t i = 0; i < width; i += 16) {
        const V16 before = g == 0 ? Zero16() : Load16(first + i);
        Store16(Fma(factor, Load16(group + i), before), first + i);
      }
    }
    return First16(total);
  }

  const AttendCall& call_;
  const int64_t heads_;
  int64_t low_, high_ = -1;  // positions that any row sees
  AttendUnit units_[kHeads][kRows];
  float* out_[kHeads][kRows];
  int64_t begin_[kRows], end_[kRows];  // blocks of the group, by row
  int64_t common_begin_ = 0, common_end_ = 0;
};

// Number of rows from `row` on that belong to the same session.
HWY_INLINE int64_t RowsOfSession(const AttendCall& call, int64_t row) {
  const KeyRange* const key_ranges = call.key_ranges + row;
  int64_t count = 1;
  while (row + count < call.rows && key_ranges[count].blocks == key_ranges[0].blocks &&
         key_ranges[count].base == key_ranges[0].base) {
    ++count;
  }
  return count;
}

// Computes units begin .. end-1 of the `rows` rows of a session, head by head.
HWY_INLINE void AttendSession(const AttendCall& call, int64_t row, int64_t rows,
                              int64_t begin, int64_t end, float* scratch) {
  if (rows == 1) {
    constexpr int64_t kHeads = AttendTile<1>::kHeads;
    for (int64_t head = begin; head < end; head += kHeads) {
      AttendTile<1>(call, row, head, std::min(kHeads, end - head), scratch).Run();
    }
    return;
  }
  while (begin < end) {
    const int64_t head = begin / rows, r = begin % rows;
    const int64_t left = std::min(rows - r, end - begin);
    if (left >= kSharedRows) {
      AttendTile<kSharedRows>(call, row + r, head, 1, scratch).Run();
      begin += kSharedRows;
    } else if (left >= 2) {
      AttendTile<2>(call, row + r, head, 1, scratch).Run();
      begin += 2;
    } else {
      AttendTile<1>(call, row + r, head, 1, scratch).Run();
      ++begin;
    }
  }
}

// A unit is a row and a head. The units of a session are ordered by head, so that each
// worker reads the keys and values of other heads.
void Attend(const AttendCall& call, Share share, float* scratch) {
  const int64_t units = call.rows * call.heads;
  const int64_t begin = share.begin(units), end = share.end(units);
  int64_t unit = 0;  // the session's first
  for (int64_t row = 0; row < call.rows && unit < end;) {
    const int64_t rows = RowsOfSession(call, row);
    const int64_t first = std::max<int64_t>(0, begin - unit);
    const int64_t last = std::min(rows * call.heads, end - unit);
    if (first < last) AttendSession(call, row, rows, first, last, scratch);
    row += rows;
    unit += rows * call.heads;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_ATTEND_INL_H
