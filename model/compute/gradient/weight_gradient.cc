// SPDX-License-Identifier: MIT
#include "model/compute/gradient/weight_gradient.h"

#include <algorithm>
#include <cstring>

#include "model/compute/gradient/row_operations.h"

namespace mnemon {
namespace {

// The sums of a unit, and the rows of a slice for it, fit the L2 cache.
constexpr int64_t kUnitOutputs = 192;
constexpr int64_t kUnitInputs = 512;
// Outputs whose factors are contiguous, for one tile of a product.
constexpr int64_t kTile = 12;
// Gap between the tiles, and the panels, of a slice: otherwise their lines would map to
// few sets of the L1 cache.
constexpr int64_t kGap = 16;
// Rows that are prefetched before they are copied.
constexpr int64_t kAhead = 8;

struct Unit {
  Part outputs, inputs;
};

int64_t Blocks(int64_t count, int64_t most) { return (count + most - 1) / most; }

template <class Real>
Unit UnitOf(const WeightGradientCall<Real>& call, int64_t unit) {
  const int64_t across = Blocks(call.inputs, kUnitInputs);
  const int64_t down = Blocks(call.outputs, kUnitOutputs);
  // In multiples of tiles and panels, so that none is divided.
  const auto part = [](int64_t count, int64_t size, int64_t i, int64_t blocks) {
    const Part tiles = PartOf(Blocks(count, size), i, blocks);
    return Part{tiles.begin * size, std::min(count, tiles.end * size)};
  };
  return {part(call.outputs, kTile, unit / across, down),
          part(call.inputs, kColumnPanel, unit % across, across)};
}

// Consecutive slices of rows of one shard, packed for products.
template <class Real>
class Slices {
 public:
  Slices(const Unit& unit, GradientScratch<Real>& scratch)
      : unit_(unit), scratch_(scratch) {
    const int64_t tiles = Blocks(unit.outputs.size(), kTile);
    const int64_t panels = Blocks(unit.inputs.size(), kColumnPanel);
    Grow(scratch.left, tiles * (kTile * kSliceDepth + kGap));
    Grow(scratch.right, panels * (kColumnPanel * kSliceDepth + kGap));
  }

  // Adds rows begin .. end - 1 of `pieces` to `sums` [outputs, inputs], or initialises
  // `sums` with them.
  void Add(const RowPairs<Real>& part, const RowPieces& pieces, Part rows, bool first,
           Real* sums, int64_t stride) {
    const int64_t depth = rows.size(), outputs = unit_.outputs.size(),
                  inputs = unit_.inputs.size();
    const int64_t tile = kTile * depth + kGap, panel = kColumnPanel * depth + kGap;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t row = pieces.at(rows.begin + d),
                    ahead = pieces.at(rows.begin + d + kAhead);
      const Real* const dy = part.dy + unit_.outputs.begin;
      const Real* const x = part.x + unit_.inputs.begin;
      Copy<kTile>(dy + row * part.dy_stride, dy + ahead * part.dy_stride, outputs,
                  scratch_.left.data() + d * kTile, tile);
      Copy<kColumnPanel>(x + row * part.x_stride, x + ahead * part.x_stride, inputs,
                         scratch_.right.data() + d * kColumnPanel, panel);
    }
    for (int64_t o = 0; o < outputs; o += kTile) {
      Real* const out = sums + o * stride;
      Multiply(
          ProductCall<Real>{.rows = std::min(kTile, outputs - o),
                            .columns = inputs,
                            .depth = depth,
                            .a = {scratch_.left.data() + o / kTile * tile, 1, kTile},
                            .b = {scratch_.right.data(), kColumnPanel, panel},
                            .from = first ? nullptr : out,
                            .from_stride = stride,
                            .out = out,
                            .out_stride = stride});
    }
  }

 private:
  // Copies `count` numbers in groups of kWidth, `stride` apart; the last is padded with
  // zeros. Prefetches `ahead`, which will be copied soon.
  template <int64_t kWidth>
  static void Copy(const Real* from, const Real* ahead, int64_t count, Real* to,
                   int64_t stride) {
    for (; count >= kWidth; count -= kWidth, from += kWidth, to += stride) {
      __builtin_prefetch(ahead);
      ahead += kWidth;
      std::memcpy(to, from, kWidth * sizeof(Real));
    }
    if (count == 0) return;
    std::copy_n(from, count, to);
    std::fill(to + count, to + kWidth, Real{0});
  }

  const Unit unit_;
  GradientScratch<Real>& scratch_;
};

}  // namespace

template <class Real>
int64_t Units(const WeightGradientCall<Real>& call) {
  return Blocks(call.outputs, kUnitOutputs) * Blocks(call.inputs, kUnitInputs);
}

template <class Real>
void ComputeUnit(const WeightGradientCall<Real>& call, int64_t index,
                 GradientScratch<Real>& scratch) {
  const Unit unit = UnitOf(call, index);
  const int64_t stride = Blocks(unit.inputs.size(), kColumnPanel) * kColumnPanel;
  const int64_t size = unit.outputs.size() * stride;
  Slices<Real> slices(unit, scratch);
  Grow(scratch.sums, size * SlotsOf(call.shards.own.size()));
  const auto slot = [&](int64_t i) { return scratch.sums.data() + i * size; };
  SumShards(
      0, call.shards.own.size(), 0,
      [&](int64_t shard, int64_t to) {
        bool first = true;
        for (const RowPairs<Real>& part : call.parts) {
          const RowPieces pieces = RowsOf(part.layout, call.shards.SequencesOf(shard));
          for (int64_t begin = 0; begin < pieces.count; begin += kSliceDepth) {
            const Part rows = {begin, std::min(pieces.count, begin + kSliceDepth)};
            slices.Add(part, pieces, rows, first, slot(to), stride);
            first = false;
          }
        }
        if (first) std::fill_n(slot(to), size, Real{0});
      },
      [&](int64_t to, int64_t from) {
        Real* const sum = slot(to);
        const Real* const other = slot(from);
        AddScaled<Real>(size, 1, other, sum, sum);
      });
  for (int64_t o = 0; o < unit.outputs.size(); ++o) {
    Real* const out =
        call.out + (unit.outputs.begin + o) * call.inputs + unit.inputs.begin;
    const Real* const sum = slot(0) + o * stride;
    std::copy_n(sum, unit.inputs.size(), out);
  }
}

template int64_t Units(const WeightGradientCall<float>&);
template int64_t Units(const WeightGradientCall<double>&);
template void ComputeUnit(const WeightGradientCall<float>&, int64_t,
                          GradientScratch<float>&);
template void ComputeUnit(const WeightGradientCall<double>&, int64_t,
                          GradientScratch<double>&);

}  // namespace mnemon
