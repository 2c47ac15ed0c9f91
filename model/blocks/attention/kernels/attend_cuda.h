// SPDX-License-Identifier: MIT
// Attend of calls.h on a device. All threads of a block call it; the block is the
// share's worker. A team of warps computes a group of kGroupBlocks blocks for one head
// of one row: half a warp the scores of a block, two threads a column of the values,
// one its even and one its odd positions. A row with many keys is thus shared by teams
// of all blocks. The last team combines the groups. C++17.
#pragma once

#include "model/blocks/attention/kernels/append_cuda.h"
#include "model/compute/cuda/row_operations.h"

namespace mnemon::device {

// Global memory through which the teams of a row exchange groups; the same for all
// blocks.
struct AttendScratch {
  // [rows + 1]: the sum of KeyGroups over the rows before, then over all of them.
  const int64_t* first_group = nullptr;
  float* groups = nullptr;      // AttendScratchFloats
  uint32_t* arrived = nullptr;  // [rows H], zeros; a call leaves them so
};

// Append of the keys and values that rows attend to, if no row attends to what another
// row appends, nor a head to what another head does.
struct AttendAppend {
  const AppendCall* call = nullptr;  // null: it was done before
  uint32_t* wrong = nullptr;         // see Append
};

// `groups`: of all rows together. Each has the sum of its values [K], its maximum and
// its total of weights.
inline constexpr int64_t AttendScratchFloats(const AttendCall& call, int64_t groups) {
  return groups * call.heads * (call.width + 2);
}

// Shared memory of a team: the scores of a group, the addresses of its blocks, the
// query, two sums for each column, and what the warps exchange.
inline constexpr int64_t AttendTeamFloats(const AttendCall& call) {
  constexpr int64_t kPointer = 2;  // floats
  static_assert(sizeof(void*) == 2 * sizeof(float), "of a block");
  return kGroupBlocks * (kBlockPositions + kPointer) + 3 * Padded(call.width) + kWarp;
}
inline constexpr int64_t AttendFloats(const AttendCall& call, int threads) {
  return threads / ColumnTeam(call.width, threads) * AttendTeamFloats(call);
}

class AttendUnit {
 public:
  // `values`: memory for the group's values if there is enough, or null.
  MNEMON_DEVICE AttendUnit(const AttendCall& call, const AttendAppend& append,
                           const AttendScratch& scratch, int64_t row, int64_t head,
                           int team, float* shared, const SharedFloats& values)
      : call_(call),
        append_(append),
        scratch_(scratch),
        range_(call.key_ranges[row]),
        row_(row),
        head_(static_cast<int>(head)),
        team_(team),
        thread_(ThreadIndex() % team),
        width_(static_cast<int>(call.width)),
        groups_(static_cast<int>(KeyGroups(range_))),
        weights_(shared),
        values_(values) {}

  // Computes group `number` of the row; called by a team.
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
    // The previous unit read both before its last barrier.
    if (thread_ < count_)
      blocks()[thread_] = range_.blocks[begin_ + thread_ - range_.base];
    const float* const query_row = call_.query.row(row_) + call_.QueryAt(head_);
    for (int i = thread_; i < width_; i += team_) query()[i] = query_row[i];
    // A row's own position is in its last group.
    if (append_.call != nullptr && number == groups_ - 1 && thread_ < kWarp) {
      AppendHead(*append_.call, row_, head_, append_.wrong);
    }
    TeamBarrier(team_);
    const bool brings = BringValues();
    const float peak = SetWeights(brings);
    float total = 0;
    ReadAhead(
        count_, [&](int b) { return weights_[b * kBlockPositions + Place()]; },
        [&](int /*b*/, float weight) { total += weight; });
    total = HalfSum(total);
    EachColumn([&](int column, int odd) {
      columns()[odd * width_ + column] =
          brings ? SumOfValues(column, odd,
                               [&](int b) {
                                 return values_.data + b * kBlockPositions * width_;
                               })
                 : SumOfValues(column, odd, [&](int b) {
                     return blocks()[b] + call_.value_offset + kept();
                   });
    });
    TeamBarrier(team_);
    const bool alone = groups_ == 1;
    for (int i = thread_; i < width_; i += team_) {
      const float sum = columns()[i] + columns()[width_ + i];
      if (alone) {
        out()[i] = Flushed(Gated(sum * Divide(1.0f, total), i));
      } else {
        sums()[number * width_ + i] = sum;
      }
    }
    if (alone) return;
    if (thread_ == 0) {
      peaks()[number] = peak;
      totals()[number] = total;
    }
    if (!IsLast()) return;
    Combine();
    if (thread_ == 0) *arrived() = 0;
  }

 private:
  // Pointers to the blocks, in shared memory.
  MNEMON_DEVICE const float** blocks() const {
    return reinterpret_cast<const float**>(weights_ + kGroupBlocks * kBlockPositions);
  }
  MNEMON_DEVICE float* query() const {
    return reinterpret_cast<float*>(blocks() + kGroupBlocks);
  }
  MNEMON_DEVICE float* columns() const {  // [even, odd][K]
    return query() + Padded(width_);
  }
  MNEMON_DEVICE float* warps() const { return columns() + 2 * Padded(width_); }

  // Pointers into global memory, computed on use to save registers.
  MNEMON_DEVICE int64_t at() const { return head_ * call_.width; }
  // Offset of the group's keys and values within a block.
  MNEMON_DEVICE int64_t kept() const { return call_.KeptAt(head_) * kBlockPositions; }
  MNEMON_DEVICE float* out() const { return call_.out.row(row_) + at(); }
  MNEMON_DEVICE float* sums() const {  // [groups][K]
    return scratch_.groups + AttendScratchFloats(call_, scratch_.first_group[row_]) +
           head_ * groups_ * (call_.width + 2);
  }
  MNEMON_DEVICE float* peaks() const { return sums() + groups_ * width_; }
  MNEMON_DEVICE float* totals() const { return peaks() + groups_; }
  MNEMON_DEVICE uint32_t* arrived() const {
    return scratch_.arrived + row_ * call_.heads + head_;
  }

  MNEMON_DEVICE float Gated(float y, int i) const {
    if (call_.gate_offset == 0) return y;
    return y *
           Sigmoid(call_.query.row(row_)[call_.QueryAt(head_) + call_.gate_offset + i]);
  }

  MNEMON_DEVICE static int Place() { return Lane() % kBlockPositions; }
  // Whether the row sees a place in the b-th block of the group.
  MNEMON_DEVICE bool Sees(int b, int place) const {
    const int position = b * kBlockPositions + place;
    return position >= first_ && position <= last_;
  }

  MNEMON_DEVICE float ScoreOf(int b) const {
    const int64_t block = (begin_ + b) * kBlockPositions;
    const int64_t row = call_.zero_row - range_.query + block + Place();
    const float* const keys = blocks()[b] + call_.key_offset + kept() + Place();
    const float* const relative =
        call_.relative_key == nullptr
            ? nullptr
            : call_.relative_key + at() * call_.table_rows + row;
    float score = 0;
    ReadAhead<kScoreAhead>(
        width_,
        [&](int i) {
          const float key = keys[i * kBlockPositions];
          return relative == nullptr ? key : key + relative[i * call_.table_rows];
        },
        [&](int i, float key) { score = Fma(query()[i], key, score); });
    if (call_.fold_offset >= 0)
      score += blocks()[b][call_.fold_offset + head_ * kBlockPositions + Place()];
    if (call_.relative_bias != nullptr)
      score += call_.relative_bias[head_ * call_.table_rows + row];
    score *= call_.scale;
    if (call_.cap > 0.0f) score = Tanh(score) * call_.cap;
    if (call_.slopes != nullptr) {
      const float distance =
          static_cast<float>(range_.query - block) - static_cast<float>(Place());
      score = Fma(-call_.slopes[head_], distance, score);
    }
    return score;
  }

  // Sets the group's weights in shared memory and, if `brought`, waits for the values
  // that are copied there; returns the maximum of the scores.
  MNEMON_DEVICE float SetWeights(bool brought) {
    const int half = thread_ / kBlockPositions, halves = team_ / kBlockPositions;
    float peak = -Infinity();
    for (int b = half; b < count_; b += halves) {
      const float score = Sees(b, Place()) ? ScoreOf(b) : -Infinity();
      weights_[b * kBlockPositions + Place()] = score;
      peak = Larger(score, peak);
    }
    peak = WarpPeak(peak);
    if (Lane() == 0) warps()[thread_ / kWarp] = peak;
    TeamBarrier(team_);
    for (int w = 0; w < team_ / kWarp; ++w) peak = Larger(warps()[w], peak);
    for (int b = half; b < count_; b += halves) {
      float* const weight = weights_ + b * kBlockPositions + Place();
      *weight = Exp(*weight - peak);
    }
    if (brought) AwaitCopies();
    TeamBarrier(team_);
    return peak;
  }

  // Order does not matter: if a score is not a number, neither is its weight.
  MNEMON_DEVICE static float WarpPeak(float peak) {
    for (int apart = kWarp / 2; apart > 0; apart /= 2) {
      peak = Larger(Shuffle(peak, Lane() ^ apart), peak);
    }
    return peak;
  }

  // Calls one(column, 0 for its even positions or 1 for its odd ones).
  template <class One>
  MNEMON_DEVICE void EachColumn(const One& one) const {
    for (int i = thread_; i < 2 * width_; i += team_) {
      const int odd = i < width_ ? 0 : 1;
      one(i - odd * width_, odd);
    }
  }

  // Starts copying the values to shared memory [blocks][16][K]; returns whether it
  // does.
  MNEMON_DEVICE bool BringValues() const {
    const int floats = kBlockPositions * width_;
    if (width_ % 4 != 0 || values_.count < int64_t{count_} * floats) return false;
    const int64_t offset = call_.value_offset + kept();
    // All blocks are aligned alike.
    if (!OnSixteenBytes(blocks()[0] + offset)) return false;
    for (int b = 0; b < count_; ++b) {
      const float* const from = blocks()[b] + offset;
      for (int i = thread_ * 4; i < floats; i += team_ * 4) {
        CopyAhead(values_.data + b * floats + i, from + i);
      }
    }
    return true;
  }

  // `values_of(b)` returns the values of the b-th block, [16][K].
  template <class ValuesOf>
  MNEMON_DEVICE float SumOfValues(int column, int odd,
                                  const ValuesOf& values_of) const {
    constexpr int kPlaces = kBlockPositions / 2;
    float sum = 0;
    MNEMON_NO_UNROLL
    for (int first = 0; first < count_; first += kBlocksAhead) {
      float value[kBlocksAhead][kPlaces];
      MNEMON_UNROLL
      for (int a = 0; a < kBlocksAhead; ++a) {
        const int b = Smaller(first + a, count_ - 1);
        const float* const values = values_of(b) + column;
        MNEMON_UNROLL
        for (int n = 0; n < kPlaces; ++n) {
          const int place = 2 * n + odd;
          value[a][n] = Sees(first + a, place) ? values[place * width_] : 0.0f;
        }
      }
      MNEMON_UNROLL
      for (int a = 0; a < kBlocksAhead; ++a) {
        MNEMON_UNROLL
        for (int n = 0; n < kPlaces; ++n) {
          const int b = first + a, place = 2 * n + odd;
          if (!Sees(b, place)) continue;
          sum = Fma(weights_[b * kBlockPositions + place], value[a][n], sum);
        }
      }
    }
    return sum;
  }

  // Whether all other groups of the row are done.
  MNEMON_DEVICE bool IsLast() const {
    Fence();
    TeamBarrier(team_);
    if (thread_ == 0) {
      warps()[0] =
          AtomicAdd(arrived(), 1) + 1 == static_cast<uint32_t>(groups_) ? 1.0f : 0.0f;
    }
    TeamBarrier(team_);
    Fence();
    return warps()[0] == 1.0f;
  }

  MNEMON_DEVICE void Combine() {
    if (thread_ < kWarp) {
      float* const of = peaks();
      float most = -Infinity();
      for (int g = Lane(); g < groups_; g += kWarp) most = Larger(of[g], most);
      most = WarpPeak(most);
      for (int g = Lane(); g < groups_; g += kWarp) of[g] = Exp(of[g] - most);
    }
    TeamBarrier(team_);
    const float total = Combined(totals(), 1);
    for (int i = thread_; i < width_; i += team_) {
      out()[i] = Flushed(Gated(Combined(sums() + i, width_) * Divide(1.0f, total), i));
    }
  }
  // By now the maxima are factors.
  MNEMON_DEVICE float Combined(const float* of, int64_t stride) const {
    const float* const factors = peaks();
    float sum = 0;
    ReadAhead(
        groups_, [&](int g) { return of[g * stride]; },
        [&](int g, float number) { sum = Fma(factors[g], number, sum); });
    return sum;
  }

  static constexpr int kScoreAhead = 32;
  static constexpr int kBlocksAhead = 4;

  const AttendCall& call_;
  const AttendAppend& append_;
  const AttendScratch& scratch_;
  const KeyRange& range_;
  const int64_t row_;
  const int head_, team_, thread_, width_, groups_;
  float* const weights_;  // the team's shared memory begins with them
  const SharedFloats values_;
  int64_t begin_ = 0;         // the group's first block
  int count_ = 0;             // its blocks
  int first_ = 0, last_ = 0;  // seen positions, relative to the group's first
};

// The last row that begins at or before `group`.
MNEMON_DEVICE int64_t RowOfGroup(const int64_t* first_group, int64_t rows,
                                 int64_t group) {
  int64_t row = 0;
  for (int64_t end = rows; end - row > 1;) {
    const int64_t middle = row + (end - row) / 2;
    (first_group[middle] <= group ? row : end) = middle;
  }
  return row;
}

// `shared`: AttendFloats. `values`: more shared memory, used by a block with one group
// of one head, or null.
MNEMON_DEVICE void Attend(const AttendCall& call, const AttendAppend& append,
                          Share share, float* shared, const SharedFloats& values,
                          const AttendScratch& scratch) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    if (KeyGroups(call.key_ranges[r]) > 0) continue;
    for (int64_t i = ThreadIndex(); i < call.heads * call.width; i += ThreadCount()) {
      call.out.row(r)[i] = 0;
    }
  }
  const int64_t units = scratch.first_group[call.rows] * call.heads;
  const int64_t end = share.end(units);
  // A block with a single unit is its team.
  const int team = end - share.begin(units) == 1
                       ? ThreadCount()
                       : ColumnTeam(call.width, ThreadCount());
  const int teams = ThreadCount() / team, index = ThreadIndex() / team;
  if (index >= teams) return;
  for (int64_t unit = share.begin(units) + index; unit < end; unit += teams) {
    const int64_t group = unit / call.heads;
    const int64_t row = RowOfGroup(scratch.first_group, call.rows, group);
    AttendUnit(call, append, scratch, row, unit % call.heads, team,
               shared + index * AttendTeamFloats(call),
               team == ThreadCount() ? values : SharedFloats{})
        .Run(group - scratch.first_group[row]);
  }
}

}  // namespace mnemon::device
