// SPDX-License-Identifier: MIT
// Attend of kernels.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_ATTEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_ATTEND_INL_H
#undef MNEMON_SIMD_ATTEND_INL_H
#else
#define MNEMON_SIMD_ATTEND_INL_H
#endif

#include <algorithm>
#include <cmath>

#include <hwy/cache_control.h>

#include "model/kernels/cpu_operations.h"
#include "model/kernels/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// One row and head of attention. While it computes it asks for what comes next: the
// values of the blocks it scores, then the keys of the next row and head.
class Attention {
 public:
  Attention(const AttendCall& call, int64_t row, int64_t head)
      : call_(call),
        next_sight_(call.sights[head + 1 < call.heads ? row : Next(call, row)]),
        next_at_((head + 1) % call.heads * call.width),
        sight_(call.sights[row]),
        head_(head),
        at_(head * call.width),
        query_(call.query.row(row) + at_),
        out_(call.out.row(row) + at_) {}

  void Run() {
    std::fill_n(out_, call_.width, 0.0f);
    if (sight_.first > sight_.last) return;
    constexpr int64_t kGroup = int64_t{kGroupBlocks} * kBlockPositions;
    float most = 0.0f;
    V16 total = Zero16();
    for (int64_t begin = sight_.first / kGroup * kGroup; begin <= sight_.last;
         begin += kGroup) {
      first_block_ = std::max(begin, sight_.first) / kBlockPositions;
      last_block_ = std::min(begin + kGroup - 1, sight_.last) / kBlockPositions;
      const float group_most = Scores();
      const bool fresh = begin <= sight_.first;
      const float before = fresh ? group_most : std::max(most, group_most);
      if (!fresh) {
        const V16 shrink = Exp16(Set16(most - before));
        total = Mul(total, shrink);
        for (int64_t i = 0; i < call_.width; i += 16) {
          const int64_t left = call_.width - i;
          StoreSome16(Mul(LoadSome16(out_ + i, left), shrink), out_ + i, left);
        }
      }
      most = before;
      total = Add(total, Exponentials(most));
      for (int64_t i = 0; i < call_.width; i += 32) {
        call_.width - i > 16 ? AddValues<2>(i) : AddValues<1>(i);
      }
    }
    const V16 scale = Set16(1.0f / Sum16(total));
    for (int64_t i = 0; i < call_.width; i += 16) {
      const int64_t left = call_.width - i;
      StoreSome16(Mul(LoadSome16(out_ + i, left), scale), out_ + i, left);
    }
  }

 private:
  static int64_t Next(const AttendCall& call, int64_t row) {
    return std::min(row + 1, call.rows - 1);
  }
  const float* Block(int64_t block) const { return sight_.blocks[block - sight_.base]; }
  const float* Values(int64_t block) const {
    return Block(block) + call_.value_offset + at_ * kBlockPositions;
  }
  // What is asked for when it sees another block, or none, does no harm.
  const float* NextKeys(int64_t block) const {
    const Sight& next = next_sight_;
    if (next.first > next.last) return query_;
    const int64_t near =
        std::clamp(block, next.first / kBlockPositions, next.last / kBlockPositions);
    return next.blocks[near - next.base] + call_.key_offset +
           next_at_ * kBlockPositions;
  }
  float* ScoresOf(int64_t block) {
    return scores_ + (block - first_block_) * kBlockPositions;
  }

  // Fills scores_ and returns their maximum. What is not seen scores -infinity.
  float Scores() {
    return call_.relative_key == nullptr ? ScoreAll<false>() : ScoreAll<true>();
  }
  template <bool kRelative>
  float ScoreAll() {
    V16 most = Set16(-HUGE_VALF);
    int64_t block = first_block_;
    for (; block + 3 <= last_block_; block += 4) ScoreBlocks<4, kRelative>(block, most);
    for (; block <= last_block_; ++block) ScoreBlocks<1, kRelative>(block, most);
    return Max16(most);
  }

  template <int kBlocks, bool kRelative>
  HWY_INLINE void ScoreBlocks(int64_t block, V16& most) {
    const int64_t values = call_.value_offset - call_.key_offset;  // from the keys
    const float* key[kBlocks];
    V16 score[kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      key[b] = Block(block + b) + call_.key_offset + at_ * kBlockPositions;
      score[b] = Zero16();
    }
    const float* table =
        kRelative ? call_.relative_key + at_ * call_.table_rows + TableRow(block)
                  : nullptr;
    for (int64_t i = 0; i < call_.width; ++i) {
      const V16 q = Set16(query_[i]);
      for (int b = 0; b < kBlocks; ++b) {
        const float* column = key[b] + i * kBlockPositions;
        V16 k = Load16(column);
        if constexpr (kRelative) {
          k = Add(k, Load16(table + i * call_.table_rows + b * kBlockPositions));
        }
        score[b] = Fma(q, k, score[b]);
        hwy::Prefetch(column + values);
      }
    }
    for (int b = 0; b < kBlocks; ++b) {
      const V16 done = See(block + b, Bias(block + b, score[b]));
      Store16(done, ScoresOf(block + b));
      most = Max(most, done);
    }
  }

  // The row of the tables for the first position of a block; later ones follow.
  int64_t TableRow(int64_t block) const {
    return call_.zero_row - sight_.query + block * kBlockPositions;
  }

  HWY_INLINE V16 Bias(int64_t block, V16 score) const {
    if (call_.fold_offset >= 0) {
      score = Add(score,
                  Load16(Block(block) + call_.fold_offset + head_ * kBlockPositions));
    }
    if (call_.relative_bias != nullptr) {
      score = Add(score, Load16(call_.relative_bias + head_ * call_.table_rows +
                                TableRow(block)));
    }
    score = Mul(score, Set16(call_.scale));
    if (call_.slopes != nullptr) {
      const float nearest = static_cast<float>(sight_.query - block * kBlockPositions);
      V16 distance;
      for (int p = 0; p < kParts; ++p) {
        distance.v[p] = hn::Sub(hn::Set(F(), nearest),
                                hn::Iota(F(), static_cast<float>(p * kLanes)));
      }
      score = Fnma(Set16(call_.slopes[head_]), distance, score);
    }
    return score;
  }

  HWY_INLINE V16 See(int64_t block, const V16& score) const {
    const int64_t begin = block * kBlockPositions;
    if (begin >= sight_.first && begin + kBlockPositions - 1 <= sight_.last)
      return score;
    HWY_ALIGN float lane[16];
    Store16(score, lane);
    for (int i = 0; i < 16; ++i) {
      if (begin + i < sight_.first || begin + i > sight_.last) lane[i] = -HUGE_VALF;
    }
    return Load16(lane);
  }

  // Scores become e^(s - most); their sum, by lane.
  V16 Exponentials(float most) {
    V16 total = Zero16();
    for (int64_t block = first_block_; block <= last_block_; ++block) {
      const V16 e = Exp16(Sub(Load16(ScoresOf(block)), Set16(most)));
      Store16(e, ScoresOf(block));
      total = Add(total, e);
    }
    return total;
  }

  // Sums over even and over odd positions, of 16 kWide numbers each.
  template <int kWide>
  struct Sums {
    V16 of[2][kWide];
  };

  // Adds weight[j] times row j of 16 rows, and asks for as many numbers from `next` on.
  // A function of its own: there the sums stay in registers.
  template <int kWide>
  static HWY_NOINLINE void AddWholeBlock(const float* weight, const float* value,
                                         int64_t stride, const float* next,
                                         Sums<kWide>& sums) {
    V16 even[kWide], odd[kWide];
    for (int w = 0; w < kWide; ++w) even[w] = sums.of[0][w];
    for (int w = 0; w < kWide; ++w) odd[w] = sums.of[1][w];
    for (int j = 0; j < kBlockPositions; j += 2) {
      const V16 p = Set16(weight[j]), q = Set16(weight[j + 1]);
      for (int w = 0; w < kWide; ++w) {
        even[w] = Fma(p, Load16(value + 16 * w), even[w]);
        odd[w] = Fma(q, Load16(value + stride + 16 * w), odd[w]);
        hwy::Prefetch(next + 16 * w);
        hwy::Prefetch(next + 16 * (kWide + w));
      }
      value += 2 * stride;
      next += 2 * 16 * kWide;
    }
    for (int w = 0; w < kWide; ++w) sums.of[0][w] = even[w];
    for (int w = 0; w < kWide; ++w) sums.of[1][w] = odd[w];
  }

  // Adds the values of the group to 16 or 32 outputs from `i` on.
  template <int kWide>
  void AddValues(int64_t i) {
    const int64_t left = call_.width - i;
    Sums<kWide> sums;
    for (int w = 0; w < kWide; ++w) {
      sums.of[0][w] = LoadSome16(out_ + i + 16 * w, left - 16 * w);
      sums.of[1][w] = Zero16();
    }
    for (int64_t block = first_block_; block <= last_block_; ++block) {
      const float* value = Values(block) + i;
      const float* weight = ScoresOf(block);
      const int64_t begin = block * kBlockPositions;
      // Only what is seen: the other places of a block may hold anything.
      const int64_t from = std::max<int64_t>(0, sight_.first - begin);
      const int64_t to = std::min<int64_t>(kBlockPositions, sight_.last - begin + 1);
      if (left >= 16 * kWide && from == 0 && to == kBlockPositions) {
        AddWholeBlock<kWide>(weight, value, call_.width,
                             NextKeys(block) + i * kBlockPositions, sums);
        continue;
      }
      for (int64_t j = from; j < to; ++j) {
        const V16 p = Set16(weight[j]);
        for (int w = 0; w < kWide; ++w) {
          V16& sum = sums.of[j % 2][w];
          sum =
              Fma(p, LoadSome16(value + j * call_.width + 16 * w, left - 16 * w), sum);
        }
      }
    }
    for (int w = 0; w < kWide; ++w) {
      StoreSome16(Add(sums.of[0][w], sums.of[1][w]), out_ + i + 16 * w, left - 16 * w);
    }
  }

  const AttendCall& call_;
  const Sight& next_sight_;
  const int64_t next_at_;
  const Sight& sight_;
  const int64_t head_;
  const int64_t at_;  // of the head within a row
  const float* const query_;
  float* const out_;
  int64_t first_block_ = 0, last_block_ = 0;  // of the group
  HWY_ALIGN float scores_[kGroupBlocks * kBlockPositions];
};

void Attend(const AttendCall& call, Share share) {
  const int64_t units = call.rows * call.heads;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    Attention(call, unit / call.heads, unit % call.heads).Run();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_ATTEND_INL_H
