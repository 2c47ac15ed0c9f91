// SPDX-License-Identifier: MIT
// Attend of kernels.h on a device. All threads of a block call it; the block is the
// share's worker. A warp computes a group of kGroupBlocks blocks for one head of one
// row, half a warp the positions of a block: so a row with many keys is shared by warps
// of all blocks. The last of them combines the groups. C++17.
#pragma once

#include "model/kernels/cuda/numbers.h"

namespace mnemon::device {

// Where the groups of a row meet, in global memory, the same for all blocks.
struct AttendScratch {
  // [rows + 1]: the sum of KeyGroups over the rows before, then over all of them.
  const int64_t* first_group = nullptr;
  float* groups = nullptr;      // AttendScratchFloats
  uint32_t* arrived = nullptr;  // [rows H], zeros; a call leaves them so
};

// `groups`: those of all rows together. Of each its values' sum, [K], its maximum and
// its total of weights.
inline constexpr int64_t AttendScratchFloats(const AttendCall& call, int64_t groups) {
  return groups * call.heads * (call.width + 2);
}

// Shared memory of a warp: the scores of a group, where its blocks are, and the query.
inline constexpr int64_t AttendWarpFloats(const AttendCall& call) {
  constexpr int64_t kPointer = sizeof(const float*) / sizeof(float);
  return kGroupBlocks * (kBlockPositions + kPointer) + Padded(call.width);
}
inline constexpr int64_t AttendFloats(const AttendCall& call, int threads) {
  return threads / kWarp * AttendWarpFloats(call);
}

class AttendUnit {
 public:
  MNEMON_DEVICE AttendUnit(const AttendCall& call, const AttendScratch& scratch,
                           int64_t row, int64_t head, float* shared)
      : call_(call),
        range_(call.key_ranges[row]),
        head_(head),
        at_(head * call.width),
        groups_(KeyGroups(range_)),
        out_(call.out.row(row) + at_),
        sums_(scratch.groups + AttendScratchFloats(call, scratch.first_group[row]) +
              head * groups_ * (call.width + 2)),
        peaks_(sums_ + groups_ * call.width),
        totals_(peaks_ + groups_),
        arrived_(scratch.arrived + row * call.heads + head),
        query_row_(call.query.row(row) + head * call.head_stride),
        weights_(shared),
        blocks_(
            reinterpret_cast<const float**>(shared + kGroupBlocks * kBlockPositions)),
        query_(shared + AttendWarpFloats(call) - Padded(call.width)) {}

  // Group number `number` of the row's, by a warp.
  MNEMON_DEVICE void Run(int64_t number) {
    const int64_t first = range_.first / kBlockPositions;
    const int64_t group = (first / kGroupBlocks + number) * kGroupBlocks;
    begin_ = first > group ? first : group;
    const int64_t end =
        Smaller(range_.last / kBlockPositions + 1, group + kGroupBlocks);
    count_ = static_cast<int>(end - begin_);
    const int64_t before = begin_ * kBlockPositions;
    first_ = range_.first > before ? static_cast<int>(range_.first - before) : 0;
    last_ = static_cast<int>(
        Smaller<int64_t>(range_.last - before, count_ * kBlockPositions - 1));
    WarpBarrier();  // nobody needs the shared memory of the unit before any longer
    if (Lane() < count_) blocks_[Lane()] = range_.blocks[begin_ + Lane() - range_.base];
    for (int64_t i = Lane(); i < call_.width; i += kWarp) query_[i] = query_row_[i];
    WarpBarrier();
    const float peak = SetWeights();
    float total = 0;
    ReadAhead(
        count_, [&](int64_t b) { return weights_[b * kBlockPositions + Place()]; },
        [&](int64_t /*b*/, float weight) { total += weight; });
    total = HalfSum(total);
    const bool alone = groups_ == 1;
    AddValues(alone ? out_ : sums_ + number * call_.width, alone, total);
    if (alone) return;
    if (Lane() == 0) {
      peaks_[number] = peak;
      totals_[number] = total;
    }
    if (!IsLast()) return;
    Combine();
    if (Lane() == 0) *arrived_ = 0;
  }

 private:
  static constexpr int kColumns = 4;

  MNEMON_DEVICE static int Place() { return Lane() % kBlockPositions; }
  MNEMON_DEVICE static int Half() { return Lane() / kBlockPositions; }
  // Of the b-th block of the group.
  MNEMON_DEVICE bool Sees(int b, int place) const {
    const int position = b * kBlockPositions + place;
    return position >= first_ && position <= last_;
  }

  MNEMON_DEVICE float ScoreOf(int b) const {
    const int64_t block = (begin_ + b) * kBlockPositions;
    const int64_t row = call_.zero_row - range_.query + block + Place();
    const float* const keys =
        blocks_[b] + call_.key_offset + at_ * kBlockPositions + Place();
    const float* const relative =
        call_.relative_key == nullptr
            ? nullptr
            : call_.relative_key + at_ * call_.table_rows + row;
    float score = 0;
    ReadAhead(
        call_.width,
        [&](int64_t i) {
          const float key = keys[i * kBlockPositions];
          return relative == nullptr ? key : key + relative[i * call_.table_rows];
        },
        [&](int64_t i, float key) { score = Fma(query_[i], key, score); });
    if (call_.fold_offset >= 0)
      score += blocks_[b][call_.fold_offset + head_ * kBlockPositions + Place()];
    if (call_.relative_bias != nullptr)
      score += call_.relative_bias[head_ * call_.table_rows + row];
    score *= call_.scale;
    if (call_.slopes != nullptr) {
      const float distance =
          static_cast<float>(range_.query - block) - static_cast<float>(Place());
      score = Fma(-call_.slopes[head_], distance, score);
    }
    return score;
  }

  // The group's weights, in shared memory; returns the maximum of its scores.
  MNEMON_DEVICE float SetWeights() {
    float peak = -Infinity();
    for (int b = Half(); b < count_; b += 2) {
      const float score = Sees(b, Place()) ? ScoreOf(b) : -Infinity();
      weights_[b * kBlockPositions + Place()] = score;
      peak = Larger(score, peak);
    }
    peak = WarpPeak(peak);
    for (int b = Half(); b < count_; b += 2) {
      float* const weight = weights_ + b * kBlockPositions + Place();
      *weight = Exp(*weight - peak);
    }
    WarpBarrier();
    return peak;
  }

  // In any order: where a score is not a number, neither is its weight.
  MNEMON_DEVICE static float WarpPeak(float peak) {
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      peak = Larger(Shuffle(peak, Lane() ^ apart), peak);
    }
    return peak;
  }

  // Half a warp adds the even positions, the other the odd ones. `last`: the result is
  // made of them.
  MNEMON_DEVICE void AddValues(float* to, bool last, float total) {
    for (int64_t first = Place(); first - Place() < call_.width;
         first += kColumns * kBlockPositions) {
      float sum[kColumns] = {};
      for (int b = 0; b < count_; ++b) AddBlock(b, first, sum);
      MNEMON_UNROLL
      for (int c = 0; c < kColumns; ++c) {
        const int64_t i = first + c * kBlockPositions;
        sum[c] += Shuffle(sum[c], Lane() ^ kBlockPositions);
        if (Half() == 1 || i >= call_.width) continue;
        to[i] = last ? Flushed(sum[c] * Divide(1.0f, total)) : sum[c];
      }
    }
  }

  // Of one block, for numbers first, first + 16, .. of the values.
  MNEMON_DEVICE void AddBlock(int b, int64_t first, float* sum) const {
    constexpr int kAtOnce = 4;
    const float* const values =
        blocks_[b] + call_.value_offset + at_ * kBlockPositions + first;
    const float* const weights = weights_ + b * kBlockPositions;
    MNEMON_UNROLL
    for (int from = 0; from < kBlockPositions; from += 2 * kAtOnce) {
      float value[kAtOnce][kColumns];
      MNEMON_UNROLL
      for (int n = 0; n < kAtOnce; ++n) {
        const int place = from + 2 * n + Half();
        MNEMON_UNROLL
        for (int c = 0; c < kColumns; ++c) {
          const int64_t i = c * kBlockPositions;
          const bool read = Sees(b, place) && first + i < call_.width;
          value[n][c] = read ? values[place * call_.width + i] : 0.0f;
        }
      }
      MNEMON_UNROLL
      for (int n = 0; n < kAtOnce; ++n) {
        const int place = from + 2 * n + Half();
        if (!Sees(b, place)) continue;
        MNEMON_UNROLL
        for (int c = 0; c < kColumns; ++c)
          sum[c] = Fma(weights[place], value[n][c], sum[c]);
      }
    }
  }

  // Whether the other groups of the row are there, behind this one.
  MNEMON_DEVICE bool IsLast() const {
    Fence();
    WarpBarrier();
    int32_t before = 0;
    if (Lane() == 0) before = static_cast<int32_t>(AtomicAdd(arrived_, 1));
    const bool last = Shuffle(before, 0) + 1 == groups_;
    Fence();
    return last;
  }

  MNEMON_DEVICE void Combine() {
    float most = -Infinity();
    for (int64_t g = Lane(); g < groups_; g += kWarp) most = Larger(peaks_[g], most);
    most = WarpPeak(most);
    for (int64_t g = Lane(); g < groups_; g += kWarp) peaks_[g] = Exp(peaks_[g] - most);
    WarpBarrier();
    const float total = Combined(totals_, 1);
    for (int64_t i = Lane(); i < call_.width; i += kWarp) {
      out_[i] = Flushed(Combined(sums_ + i, call_.width) * Divide(1.0f, total));
    }
  }
  // By now the peaks are factors.
  MNEMON_DEVICE float Combined(const float* of, int64_t stride) const {
    float sum = 0;
    ReadAhead(
        groups_, [&](int64_t g) { return of[g * stride]; },
        [&](int64_t g, float number) { sum = Fma(peaks_[g], number, sum); });
    return sum;
  }

  const AttendCall& call_;
  const KeyRange range_;
  const int64_t head_, at_, groups_;
  float* const out_;
  float* const sums_;    // [groups][K]
  float* const peaks_;   // [groups]
  float* const totals_;  // [groups]
  uint32_t* const arrived_;
  const float* const query_row_;
  float* const weights_;
  const float** const blocks_;
  float* const query_;
  int64_t begin_ = 0;         // the group's first block
  int count_ = 0;             // its blocks
  int first_ = 0, last_ = 0;  // that the row sees, from the group's first position
};

// The last row that begins at `group` or before.
MNEMON_DEVICE int64_t RowOfGroup(const int64_t* first_group, int64_t rows,
                                 int64_t group) {
  int64_t row = 0;
  for (int64_t end = rows; end - row > 1;) {
    const int64_t middle = row + (end - row) / 2;
    (first_group[middle] <= group ? row : end) = middle;
  }
  return row;
}

// `shared`: AttendFloats.
MNEMON_DEVICE void Attend(const AttendCall& call, Share share, float* shared,
                          const AttendScratch& scratch) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    if (KeyGroups(call.key_ranges[r]) > 0) continue;
    for (int64_t i = ThreadIndex(); i < call.heads * call.width; i += ThreadCount()) {
      call.out.row(r)[i] = 0;
    }
  }
  const int64_t units = scratch.first_group[call.rows] * call.heads;
  const int64_t end = share.end(units);
  for (int64_t unit = share.begin(units) + WarpIndex(); unit < end;
       unit += WarpCount()) {
    const int64_t group = unit / call.heads;
    const int64_t row = RowOfGroup(scratch.first_group, call.rows, group);
    AttendUnit(call, scratch, row, unit % call.heads,
               shared + WarpIndex() * AttendWarpFloats(call))
        .Run(group - scratch.first_group[row]);
  }
}

}  // namespace mnemon::device
