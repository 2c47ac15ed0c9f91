// SPDX-License-Identifier: MIT
// Linear of kernels.h on a device for few rows. All threads of a block call it; the
// block computes its units of outputs of all rows: four outputs, or in int8 a panel.
//
// A thread sums one slice of one output for up to kTileRows rows, with one accumulator
// for each, so that a weight is read once for them; in int8 a warp multiplies a slice
// of a panel. A block processes the slices of several units in parallel. The partial
// sums go to shared memory, where one thread per output and row adds its slices upward.
// Data that does not depend on the rows can be copied to shared memory before the call.
// C++17.
#pragma once

#include "model/compute/cuda/plan_linear.h"

namespace mnemon::device {

// A slice of a panel.
struct PanelSlice {
  const void* weights = nullptr;
  int64_t width = 0;

  MNEMON_DEVICE PanelSlice(const MatrixView& matrix, int64_t panel, int64_t slice)
      : weights(static_cast<const char*>(matrix.panels) + panel * matrix.panel_bytes +
                slice * matrix.slice_bytes),
        width(Smaller(matrix.slice, matrix.inputs - slice * matrix.slice)) {}
};

// Calls some(tile, first row, rows) for tiles of up to `at_once` rows in shared memory
// at `inputs`, set from row(r); called by all threads together.
template <class Row, class Some>
MNEMON_DEVICE void EachTile(const MatrixView& matrix, int slices, int64_t rows,
                            int at_once, const NormView& norm, float* inputs,
                            const Row& row, const Some& some) {
  for (int64_t first = 0; first < rows; first += at_once) {
    const auto count = static_cast<int>(Smaller<int64_t>(at_once, rows - first));
    InputTile tile(matrix, slices, at_once, inputs);
    for (int r = WarpIndex(); r < count; r += WarpCount()) {
      tile.Set(r, row(first + r), norm);
    }
    Barrier();
    if (matrix.format == WeightFormat::kInt8) {
      for (int n = WarpIndex(); n < count * slices; n += WarpCount()) {
        tile.Quantise(n / slices, n % slices);
      }
      Barrier();
    }
    some(tile, first, count);
  }
}

// Writes output n of row r from its sum, which includes the bias. `before`: the
// residual, if there is one; `nothing`: SeesNothing of the row.
MNEMON_DEVICE void FinishLinear(const LinearCall& call, bool factor, float sum,
                                int64_t r, int64_t n, float before, bool nothing) {
  float* const out = call.out.row(r) + n;
  sum = factor ? *out * sum : Activated(sum, call.act);
  if (factor != (call.gate != nullptr)) {
    *out = sum;
    return;
  }
  if (call.scale != 1.0f) sum = call.scale * sum;
  if (call.cap > 0.0f) sum = call.cap * Tanh(sum);
  if (call.residual.data != nullptr) sum = nothing ? before : before + sum;
  *out = Flushed(sum);
}

// A block's part of a linear call.
class LinearBlock {
 public:
  // `ahead`: memory for data copied ahead, if the plan says so.
  MNEMON_DEVICE LinearBlock(const LinearCall& call, const LinearPlan& plan, int index,
                            float* ahead)
      : call_(call),
        plan_(plan),
        first_(plan.each * index + Smaller(index, plan.more)),
        count_(plan.each + (index < plan.more ? 1 : 0)),
        ahead_(ahead) {}

  // Starts copying what can be copied ahead; called by all threads of the block.
  MNEMON_DEVICE void Bring() const {
    if (!plan_.ahead || count_ == 0) return;
    const MatrixView& matrix = call_.weights;
    const auto inputs = static_cast<int>(matrix.inputs);
    if (call_.norm.gain != nullptr) {
      BringFloats(call_.norm.gain, ahead_, inputs);
      BringFloats(call_.norm.bias, ahead_ + plan_.norm_bias_at, inputs);
    }
    const int first = first_ * plan_.outputs, outputs = count_ * plan_.outputs;
    if (matrix.bias != nullptr)
      BringFloats(matrix.bias + first, ahead_ + plan_.bias_at, outputs);
    if (matrix.scales != nullptr)
      BringFloats(matrix.scales + first, ahead_ + plan_.scales_at, outputs);
    if (matrix.format == WeightFormat::kInt8) {
      BringFloats(static_cast<const float*>(matrix.panels) + first_ * plan_.unit_floats,
                  ahead_ + plan_.weights_at, count_ * plan_.unit_floats);
      return;
    }
    int unit = 0, slice = WarpIndex();
    for (; slice >= plan_.slices; slice -= plan_.slices) ++unit;
    while (unit < count_) {
      BringSlice(unit, slice);
      for (slice += WarpCount(); slice >= plan_.slices; slice -= plan_.slices) ++unit;
    }
  }

  // More shared memory allows more rows at once, up to kTileRows. REQUIRES: the copies
  // of Bring are complete.
  MNEMON_DEVICE void Run(float* shared) const;

 private:
  MNEMON_DEVICE static void BringFloats(const float* from, float* to, int floats) {
    // Up to three more.
    for (int i = ThreadIndex() * 4; i < floats; i += ThreadCount() * 4) {
      CopyAhead(to + i, from + i);
    }
  }

  // Called by a warp; layout [inputs][4].
  MNEMON_DEVICE void BringSlice(int unit, int slice) const {
    const MatrixView& matrix = call_.weights;
    const int number = first_ + unit;
    const char* const from =
        static_cast<const char*>(PanelSlice(matrix, number / 4, slice).weights) +
        number % 4 * 16;
    float* const to = ahead_ + plan_.weights_at + unit * plan_.unit_floats +
                      slice * plan_.slice_floats;
    const int lines = SliceLines(matrix, WidthOf(slice));
    for (int i = Lane(); i < lines; i += kWarp) {
      CopyAhead(to + i * 4, from + i * (kPanel * sizeof(float)));
    }
  }

  MNEMON_DEVICE int WidthOf(int slice) const {
    const auto width = static_cast<int>(call_.weights.slice);
    return Smaller(width, static_cast<int>(call_.weights.inputs) - slice * width);
  }
  MNEMON_DEVICE NormView norm() const {
    NormView norm = call_.norm;
    if (!plan_.ahead || norm.gain == nullptr) return norm;
    norm.gain = ahead_;
    norm.bias = ahead_ + plan_.norm_bias_at;
    return norm;
  }

  MNEMON_DEVICE void UnitSums(const MatrixView& matrix, const InputTile& tile, int rows,
                              int first, int count, float* sums) const;
  MNEMON_DEVICE void Multiply(const MatrixView& matrix, bool factor,
                              const InputTile& tile, int64_t first_row, int rows,
                              float* sums) const;

  const LinearCall& call_;
  const LinearPlan& plan_;
  const int first_, count_;  // units
  float* const ahead_;
};

// Weights of one output: floats, or in bf16 words of two, kLine apart.
struct OutputSlice {
  const void* weights = nullptr;
  int width = 0;
  bool bf16 = false;
};

// Adds inputs k .. k + kCount - 1 of a slice to the sums of one output, for the first
// `rows` rows of a tile. All weights are read before the first is used. REQUIRES: k is
// a multiple of kCount; if that is a multiple of 4, inputs are aligned to 16 bytes.
template <int kCount, int kLine>
MNEMON_DEVICE void AddInputs(const OutputSlice& at, int k, int stride, int rows,
                             const float* inputs, float* sums) {
  float weight[kCount];
  if (at.bf16) {
    uint32_t words[(kCount + 1) / 2];
    const auto* const from = static_cast<const uint32_t*>(at.weights);
    MNEMON_UNROLL
    for (int i = 0; i < (kCount + 1) / 2; ++i) words[i] = from[(k / 2 + i) * kLine];
    MNEMON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const bool high = (kCount == 1 ? k : i) % 2 == 1;
      weight[i] = BitsAsFloat(high ? words[i / 2] & 0xFFFF0000u : words[i / 2] << 16);
    }
  } else {
    const auto* const from = static_cast<const float*>(at.weights);
    MNEMON_UNROLL
    for (int i = 0; i < kCount; ++i) weight[i] = from[(k + i) * kLine];
  }
  MNEMON_UNROLL
  for (int r = 0; r < kTileRows; ++r) {
    if (r >= rows) break;
    const float* const x = inputs + r * stride + k;
    if constexpr (kCount % 4 == 0) {
      MNEMON_UNROLL
      for (int i = 0; i < kCount; i += 4) {
        const Four four = *reinterpret_cast<const Four*>(x + i);
        MNEMON_UNROLL
        for (int j = 0; j < 4; ++j) sums[r] = Fma(four.at[j], weight[i + j], sums[r]);
      }
    } else {
      sums[r] = Fma(*x, weight[0], sums[r]);
    }
  }
}

// Sums one slice of one output, for the first `rows` rows of a tile. `fours`: its
// inputs are aligned to 16 bytes.
template <int kLine>
MNEMON_DEVICE void SliceSums(const OutputSlice& at, int rows, const float* inputs,
                             int stride, bool fours, float* sums) {
  MNEMON_UNROLL
  for (int r = 0; r < kTileRows; ++r) sums[r] = 0;
  int k = 0;
  if (fours) {
    MNEMON_NO_UNROLL
    for (; k + 32 <= at.width; k += 32)
      AddInputs<32, kLine>(at, k, stride, rows, inputs, sums);
    MNEMON_NO_UNROLL
    for (; k + 8 <= at.width; k += 8)
      AddInputs<8, kLine>(at, k, stride, rows, inputs, sums);
  }
  MNEMON_NO_UNROLL
  for (; k < at.width; ++k) AddInputs<1, kLine>(at, k, stride, rows, inputs, sums);
}

// In int8: sums of the i-th slice for all outputs of some panels and 8 kTiles rows, of
// which `rows` exist; called by a warp, writes [rows][stride]. Outputs are the rows of
// a product of bytes, 2 g and 2 g + 1 its rows g and g + 8, so that a lane reads them
// together; rows are its columns. `panel(p)`: a slice.
template <int kPanels, int kTiles, class Panel>
MNEMON_DEVICE void Int8Sums(const Int8Rows& inputs, int rows, const Panel& panel, int i,
                            int stride, float* sums) {
  static_assert(kPanel == 16, "the shape of a product");
  struct alignas(8) Two {
    uint32_t first, second;
  };
  struct Step {
    Two low[kPanels], high[kPanels];
    int32_t inputs[kTiles][2];
  };
  const int g = Lane() / 4, t = Lane() % 4;
  const Two* weights[kPanels];
  MNEMON_UNROLL
  for (int p = 0; p < kPanels; ++p)
    weights[p] = static_cast<const Two*>(panel(p).weights) + g;
  const auto words = static_cast<int>((panel(0).width + 3) / 4);
  // Missing rows repeat the last one; their results are dropped.
  const auto there = [&](int row) { return Smaller(row, rows - 1); };
  int32_t sum[kPanels][kTiles][4];
  const int32_t* input[kTiles];
  MNEMON_UNROLL
  for (int n = 0; n < kTiles; ++n) {
    input[n] = inputs.words(there(8 * n + g), i) + t;
    MNEMON_UNROLL
    for (int k = 0; k < 4; ++k) {
      const int32_t start = inputs.start(there(8 * n + 2 * t + k % 2), i);
      MNEMON_UNROLL
      for (int p = 0; p < kPanels; ++p) sum[p][n][k] = start;
    }
  }
  // Inputs after the slice are arbitrary; their weights are 0.
  const auto read = [&](int p, int word) {
    return word < words ? weights[p][word * (kPanel / 2)] : Two{0, 0};
  };
  ReadAhead<2>((words + 7) / 8,
               [&](int s) {
                 Step step;
                 MNEMON_UNROLL
                 for (int p = 0; p < kPanels; ++p) {
                   step.low[p] = read(p, 8 * s + t);
                   step.high[p] = read(p, 8 * s + t + 4);
                 }
                 MNEMON_UNROLL
                 for (int n = 0; n < kTiles; ++n) {
                   step.inputs[n][0] = input[n][8 * s];
                   step.inputs[n][1] = input[n][8 * s + 4];
                 }
                 return step;
               },
               [&](int /*s*/, const Step& step) {
                 MNEMON_UNROLL
                 for (int p = 0; p < kPanels; ++p) {
                   const uint32_t a[4] = {step.low[p].first, step.low[p].second,
                                          step.high[p].first, step.high[p].second};
                   MNEMON_UNROLL
                   for (int n = 0; n < kTiles; ++n) {
                     MultiplyBytes(a, step.inputs[n], sum[p][n]);
                   }
                 }
               });
  MNEMON_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    MNEMON_UNROLL
    for (int n = 0; n < kTiles; ++n) {
      MNEMON_UNROLL
      for (int k = 0; k < 4; ++k) {
        const int row = 8 * n + 2 * t + k % 2;
        if (row < rows)
          sums[row * stride + p * kPanel + 2 * g + k / 2] =
              static_cast<float>(sum[p][n][k]);
      }
    }
  }
}

// Sums [slices][rows][outputs] of some of the block's units. `matrix` is the call's
// weights, or its gate, for which nothing is copied ahead.
MNEMON_DEVICE void LinearBlock::UnitSums(const MatrixView& matrix,
                                         const InputTile& tile, int rows, int first,
                                         int count, float* sums) const {
  const int slices = plan_.slices, items = count * slices;
  if (matrix.format == WeightFormat::kInt8) {
    for (int item = WarpIndex(); item < items; item += WarpCount()) {
      const int u = item / slices, i = item - u * slices;
      PanelSlice at(matrix, first_ + first + u, i);
      if (plan_.ahead) {
        at.weights = reinterpret_cast<const char*>(ahead_ + plan_.weights_at +
                                                   (first + u) * plan_.unit_floats) +
                     i * matrix.slice_bytes;
      }
      Int8Sums<1, 1>(
          tile.int8(), rows, [&](int /*p*/) { return at; }, i, kPanel,
          sums + item * rows * kPanel);
    }
    return;
  }
  const int output = ThreadIndex() % 4;
  const bool fours = matrix.slice % 4 == 0;
  for (int item = ThreadIndex() / 4; item < items; item += ThreadCount() / 4) {
    const int u = item / slices, i = item - u * slices;
    OutputSlice at{nullptr, WidthOf(i), matrix.format == WeightFormat::kBf16};
    const float* const inputs = tile.inputs(0, i);
    float found[kTileRows];
    if (plan_.ahead) {
      at.weights = ahead_ + plan_.weights_at + (first + u) * plan_.unit_floats +
                   i * plan_.slice_floats + output;
      SliceSums<4>(at, rows, inputs, tile.stride(), fours, found);
    } else {
      const int number = first_ + first + u;
      at.weights =
          static_cast<const float*>(PanelSlice(matrix, number / 4, i).weights) +
          number % 4 * 4 + output;
      SliceSums<kPanel>(at, rows, inputs, tile.stride(), fours, found);
    }
    MNEMON_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      if (r < rows) sums[(item * rows + r) * 4 + output] = found[r];
    }
  }
}

MNEMON_DEVICE void LinearBlock::Multiply(const MatrixView& matrix, bool factor,
                                         const InputTile& tile, int64_t first_row,
                                         int rows, float* sums) const {
  const bool int8 = matrix.format == WeightFormat::kInt8;
  const int each = rows * plan_.outputs, slices = plan_.slices;
  for (int unit = 0; unit < count_; unit += plan_.at_once) {
    const int some = Smaller(plan_.at_once, count_ - unit);
    UnitSums(matrix, tile, rows, unit, some, sums);
    Barrier();
    for (int n = ThreadIndex(); n < some * each; n += ThreadCount()) {
      const int u = n / each, in_unit = n - u * each;
      const int r = int8 ? in_unit / static_cast<int>(kPanel) : in_unit / 4;
      const int output = (unit + u) * plan_.outputs + in_unit - r * plan_.outputs;
      const int64_t number = first_ * plan_.outputs + output, row = first_row + r;
      if (number >= matrix.outputs) continue;
      // These loads overlap with adding the slices.
      const bool nothing = SeesNothing(call_.key_ranges, row);
      const float before =
          call_.residual.data == nullptr ? 0.0f : call_.residual.row(row)[number];
      const float* const sum = sums + u * slices * each + in_unit;
      float total = 0;
      if (int8) {
        const float scale =
            plan_.ahead ? ahead_[plan_.scales_at + output] : matrix.scales[number];
        for (int i = 0; i < slices; ++i) {
          total = Fma(sum[i * each], tile.int8().scale(r, i) * scale, total);
        }
      } else {
        total = sum[0];
        for (int i = 1; i < slices; ++i) total += sum[i * each];
      }
      if (matrix.bias != nullptr) {
        total += plan_.ahead ? ahead_[plan_.bias_at + output] : matrix.bias[number];
      }
      FinishLinear(call_, factor, total, row, number, before, nothing);
    }
    Barrier();
  }
}

MNEMON_DEVICE void LinearBlock::Run(float* shared) const {
  if (count_ == 0) return;
  const MatrixView& matrix = call_.weights;
  EachTile(
      matrix, plan_.slices, call_.rows, plan_.tile_rows, norm(), shared + plan_.tile_at,
      [&](int64_t r) {
        return call_.in.row(call_.pick == nullptr ? r : call_.pick[r]);
      },
      [&](const InputTile& tile, int64_t first_row, int rows) {
        Multiply(matrix, /*factor=*/false, tile, first_row, rows, shared);
        if (call_.gate != nullptr)
          Multiply(*call_.gate, /*factor=*/true, tile, first_row, rows, shared);
      });
}

}  // namespace mnemon::device
