// SPDX-License-Identifier: MIT
// Attend of kernels.h on a device. All threads of a block call it; the block is the
// share's worker. A warp computes one head of one row, group by group of kGroupBlocks
// blocks: half a warp is the positions of a block. C++17.
#pragma once

#include "model/kernels/cuda/numbers.h"

namespace mnemon::device {

// Shared memory of a block: the scores of a group for each warp.
inline constexpr int64_t AttendFloats(int threads) {
  return threads / kWarp * kGroupBlocks * kBlockPositions;
}

// Of each group its values' sum, [K], its maximum and its total of weights.
inline constexpr int64_t AttendGroupSize(const AttendCall& call) {
  return call.width + 2;
}
// Scratch memory of a block, in global memory.
inline constexpr int64_t AttendScratch(const AttendCall& call, int threads) {
  return threads / kWarp * call.groups * AttendGroupSize(call);
}

class AttendUnit {
 public:
  MNEMON_DEVICE AttendUnit(const AttendCall& call, int64_t row, int64_t head,
                           float* scores, float* groups)
      : call_(call),
        range_(call.key_ranges[row]),
        head_(head),
        at_(head * call.width),
        query_(call.query.row(row) + head * call.head_stride),
        out_(call.out.row(row) + at_),
        scores_(scores),
        groups_(groups) {}

  // By a warp.
  MNEMON_DEVICE void Run() {
    const int64_t count = KeyGroups(range_);
    const int64_t first =
        count == 0 ? 0 : range_.first / kBlockPositions / kGroupBlocks;
    for (int64_t g = 0; g < count; ++g) {
      AddGroup(first + g, groups_ + g * AttendGroupSize(call_));
    }
    WarpBarrier();
    Finish(count);
  }

 private:
  MNEMON_DEVICE const float* Block(int64_t block) const {
    return range_.blocks[block - range_.base];
  }
  MNEMON_DEVICE bool Sees(int64_t position) const {
    return position >= range_.first && position <= range_.last;
  }
  MNEMON_DEVICE float* Score(int64_t block, int64_t place) const {
    return scores_ + block % kGroupBlocks * kBlockPositions + place;
  }

  MNEMON_DEVICE float ScoreOf(int64_t block, int64_t place) const {
    const float* const keys = Block(block) + call_.key_offset + at_ * kBlockPositions;
    const int64_t row = call_.zero_row - range_.query + block * kBlockPositions + place;
    float score = 0;
    for (int64_t i = 0; i < call_.width; ++i) {
      float key = keys[i * kBlockPositions + place];
      if (call_.relative_key != nullptr)
        key += call_.relative_key[(at_ + i) * call_.table_rows + row];
      score = Fma(query_[i], key, score);
    }
    if (call_.fold_offset >= 0)
      score += Block(block)[call_.fold_offset + head_ * kBlockPositions + place];
    if (call_.relative_bias != nullptr)
      score += call_.relative_bias[head_ * call_.table_rows + row];
    score *= call_.scale;
    if (call_.slopes != nullptr) {
      const float distance =
          static_cast<float>(range_.query - block * kBlockPositions) -
          static_cast<float>(place);
      score = Fma(-call_.slopes[head_], distance, score);
    }
    return score;
  }

  MNEMON_DEVICE void AddGroup(int64_t group, float* to) {
    const int64_t begin = range_.first / kBlockPositions > group * kGroupBlocks
                              ? range_.first / kBlockPositions
                              : group * kGroupBlocks;
    const int64_t end =
        Smaller(range_.last / kBlockPositions + 1, (group + 1) * kGroupBlocks);
    const int place = Lane() % kBlockPositions, half = Lane() / kBlockPositions;
    for (int64_t block = begin + half; block < end; block += 2) {
      *Score(block, place) =
          Sees(block * kBlockPositions + place) ? ScoreOf(block, place) : -Infinity();
    }
    WarpBarrier();
    float peak = -Infinity();
    for (int64_t block = begin; block < end; ++block) {
      peak = Larger(peak, *Score(block, place));
    }
    float most = Shuffle(peak, 0);
    for (int i = 1; i < kBlockPositions; ++i) most = Larger(Shuffle(peak, i), most);
    WarpBarrier();
    for (int64_t block = begin + half; block < end; block += 2) {
      *Score(block, place) = Exp(*Score(block, place) - most);
    }
    WarpBarrier();
    float total = 0;
    for (int64_t block = begin; block < end; ++block) total += *Score(block, place);
    total = HalfSum(total);
    for (int64_t first = 0; first < call_.width; first += kBlockPositions) {
      AddValues(begin, end, first + place, half, to);
    }
    if (Lane() == 0) {
      to[call_.width] = most;
      to[call_.width + 1] = total;
    }
    WarpBarrier();  // the next group's scores take the place of these
  }

  // Number i of the values: half a warp adds the even positions, the other the odd
  // ones.
  MNEMON_DEVICE void AddValues(int64_t begin, int64_t end, int64_t i, int half,
                               float* to) {
    float sum = 0;
    for (int64_t block = begin; block < end && i < call_.width; ++block) {
      const float* const values =
          Block(block) + call_.value_offset + at_ * kBlockPositions + i;
      for (int64_t place = half; place < kBlockPositions; place += 2) {
        if (!Sees(block * kBlockPositions + place)) continue;
        sum = Fma(*Score(block, place), values[place * call_.width], sum);
      }
    }
    sum += Shuffle(sum, Lane() ^ kBlockPositions);
    if (half == 0 && i < call_.width) to[i] = sum;
  }

  // Combines the groups; zeros where there are none. With one of them the factor would
  // be 1.
  MNEMON_DEVICE void Finish(int64_t count) {
    const int64_t width = call_.width, size = AttendGroupSize(call_);
    float most = count == 0 ? 0 : groups_[width];
    for (int64_t g = 1; g < count; ++g) most = Larger(groups_[g * size + width], most);
    for (int64_t i = Lane(); i < width; i += kWarp) {
      if (count == 0) {
        out_[i] = 0;
        continue;
      }
      float sum = groups_[i], total = groups_[width + 1];
      for (int64_t g = 0; count > 1 && g < count; ++g) {
        const float* const group = groups_ + g * size;
        const float factor = Exp(group[width] - most);
        sum = Fma(factor, group[i], g == 0 ? 0.0f : sum);
        total = Fma(factor, group[width + 1], g == 0 ? 0.0f : total);
      }
      out_[i] = Flushed(sum * Divide(1.0f, total));
    }
    WarpBarrier();  // the next unit's groups take the place of these
  }

  const AttendCall& call_;
  const KeyRange range_;
  const int64_t head_, at_;
  const float* const query_;
  float* const out_;
  float* const scores_;
  float* const groups_;
};

// `shared`: AttendFloats; `scratch`: AttendScratch, the block's own.
MNEMON_DEVICE void Attend(const AttendCall& call, Share share, float* shared,
                          float* scratch) {
  const int64_t units = call.rows * call.heads, end = share.end(units);
  for (int64_t unit = share.begin(units) + WarpIndex(); unit < end;
       unit += WarpCount()) {
    AttendUnit(call, unit / call.heads, unit % call.heads,
               shared + WarpIndex() * kGroupBlocks * kBlockPositions,
               scratch + WarpIndex() * call.groups * AttendGroupSize(call))
        .Run();
  }
}

}  // namespace mnemon::device
