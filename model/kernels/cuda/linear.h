// SPDX-License-Identifier: MIT
// Linear of kernels.h on a device for few rows. All threads of a block call it; the
// block is the share's worker and computes its units of outputs of all rows: four
// outputs, or in int8 a panel.
//
// A thread sums one slice of one output for up to kTileRows rows, with one accumulator
// for each, so that a weight is read once for them; in int8 a warp multiplies a slice
// of a panel. A block does so with the slices of several units side by side. The
// partial sums meet in shared memory, where one thread for each output and row adds its
// slices upward. What does not depend on the rows may have been brought to shared
// memory ahead of the call. C++17.
#pragma once

#include "model/kernels/cuda/input_tile.h"

namespace mnemon::device {

// Outputs of a unit.
inline constexpr int UnitOutputs(const MatrixView& matrix) {
  return matrix.format == WeightFormat::kInt8 ? static_cast<int>(kPanel) : 4;
}
inline constexpr int64_t LinearUnits(const MatrixView& matrix) {
  return matrix.panel_count() * (kPanel / UnitOutputs(matrix));
}

// Sums that `threads` threads make at once: whole units of slices.
inline constexpr int64_t SumsAtOnce(const MatrixView& matrix, int64_t slices,
                                    int threads) {
  const int64_t sums = threads / UnitOutputs(matrix);
  return sums <= slices ? slices : sums - sums % slices;
}

// Floats of shared memory with which `rows` rows go at once, and `slices` slices.
inline constexpr int64_t ProductFloats(const MatrixView& matrix, int64_t slices,
                                       int64_t rows, int threads) {
  return SumsAtOnce(matrix, slices, threads) * rows * UnitOutputs(matrix) +
         rows * InputTile::FloatsOfRow(matrix, slices);
}

// A slice of a panel.
struct PanelSlice {
  const void* weights = nullptr;
  int64_t width = 0;

  MNEMON_DEVICE PanelSlice(const MatrixView& matrix, int64_t panel, int64_t slice)
      : weights(static_cast<const char*>(matrix.panels) + panel * matrix.panel_bytes +
                slice * matrix.slice_bytes),
        width(Smaller(matrix.slice, matrix.inputs - slice * matrix.slice)) {}
};

// What a block has of a call in shared memory ahead of it, or nothing where there is no
// room: the norm, and of its units biases, scales and weights. In int8 whole panels as
// they are, else [units][slices] of [inputs][4] in float32, or two inputs in a word in
// bf16; a slice begins in other banks than its neighbours.
class LinearAhead {
 public:
  // Floats for so many units.
  static constexpr int64_t Floats(const LinearCall& call, int64_t units) {
    const MatrixView& matrix = call.weights;
    const int64_t outputs = Whole(units * UnitOutputs(matrix));
    return (call.norm.gain == nullptr ? 0 : 2 * Whole(matrix.inputs)) +
           (matrix.bias == nullptr ? 0 : outputs) +
           (matrix.scales == nullptr ? 0 : outputs) + units * UnitFloats(matrix);
  }

  // `memory`: the block's, as much as may be used.
  MNEMON_DEVICE LinearAhead(const LinearCall& call, Part units,
                            const SharedFloats& memory)
      : call_(call), units_(units), memory_(memory.data) {
    const MatrixView& matrix = call.weights;
    fits_ = units.size() > 0 && call.gate == nullptr &&
            Floats(call, units.size()) <= memory.count &&
            OnSixteenBytes(matrix.panels) && OnSixteenBytes(matrix.bias) &&
            OnSixteenBytes(matrix.scales) && OnSixteenBytes(call.norm.gain) &&
            OnSixteenBytes(call.norm.bias) &&
            matrix.panel_bytes == matrix.slices() * matrix.slice_bytes;
  }

  MNEMON_DEVICE bool fits() const { return fits_; }

  // Begins to bring it there, by all threads of the block. REQUIRES: fits().
  MNEMON_DEVICE void Bring() const {
    const MatrixView& matrix = call_.weights;
    if (call_.norm.gain != nullptr) {
      Bring(call_.norm.gain, gain(), matrix.inputs);
      Bring(call_.norm.bias, gain() + Whole(matrix.inputs), matrix.inputs);
    }
    const int64_t first = units_.begin * UnitOutputs(matrix);
    if (matrix.bias != nullptr) Bring(matrix.bias + first, bias(), outputs());
    if (matrix.scales != nullptr) Bring(matrix.scales + first, scales(), outputs());
    if (matrix.format == WeightFormat::kInt8) {
      const char* const from =
          static_cast<const char*>(matrix.panels) + units_.begin * matrix.panel_bytes;
      Bring(reinterpret_cast<const float*>(from), weights(),
            units_.size() * UnitFloats(matrix));
      return;
    }
    const auto slices = static_cast<int>(matrix.slices());
    const int items = static_cast<int>(units_.size()) * slices;
    for (int item = WarpIndex(); item < items; item += WarpCount()) {
      const int unit = item / slices, slice = item - unit * slices;
      const auto number = static_cast<int>(units_.begin) + unit;
      const PanelSlice at(matrix, number / 4, slice);
      const char* const from = static_cast<const char*>(at.weights) + number % 4 * 16;
      float* const to = weights() + item * SliceFloats(matrix);
      const int lines = Lines(matrix, static_cast<int>(at.width));
      for (int i = Lane(); i < lines; i += kWarp) {
        CopyAhead(to + i * 4, from + i * kPanel * sizeof(float));
      }
    }
  }

  // The norm as it is there, or where the call has it.
  MNEMON_DEVICE NormView norm() const {
    if (!fits_ || call_.norm.gain == nullptr) return call_.norm;
    return {gain(), gain() + Whole(call_.weights.inputs)};
  }
  // Of an output, counted from the block's first.
  MNEMON_DEVICE float BiasOf(int output) const {
    return fits_ ? bias()[output] : call_.weights.bias[First() + output];
  }
  MNEMON_DEVICE float ScaleOf(int output) const {
    return fits_ ? scales()[output] : call_.weights.scales[First() + output];
  }
  // In int8, of the block's unit.
  MNEMON_DEVICE PanelSlice PanelOf(int unit, int slice) const {
    const MatrixView& matrix = call_.weights;
    PanelSlice at(matrix, units_.begin + unit, slice);
    if (fits_) {
      at.weights = reinterpret_cast<const char*>(weights()) +
                   unit * matrix.panel_bytes + slice * matrix.slice_bytes;
    }
    return at;
  }
  // Likewise else, [inputs][4].
  MNEMON_DEVICE const float* WeightsOf(int unit, int slice, int slices) const {
    return weights() + (unit * slices + slice) * SliceFloats(call_.weights);
  }

 private:
  static constexpr int64_t Whole(int64_t floats) { return (floats + 3) / 4 * 4; }
  static constexpr int Lines(const MatrixView& matrix, int width) {
    return matrix.format == WeightFormat::kBf16 ? (width + 1) / 2 : width;
  }
  static constexpr int SliceFloats(const MatrixView& matrix) {
    return Lines(matrix, static_cast<int>(matrix.slice)) * 4 + 4;
  }
  static constexpr int64_t UnitFloats(const MatrixView& matrix) {
    return matrix.format == WeightFormat::kInt8
               ? matrix.panel_bytes / static_cast<int64_t>(sizeof(float))
               : matrix.slices() * SliceFloats(matrix);
  }

  MNEMON_DEVICE int64_t First() const {
    return units_.begin * UnitOutputs(call_.weights);
  }
  MNEMON_DEVICE int64_t outputs() const {
    return units_.size() * UnitOutputs(call_.weights);
  }
  MNEMON_DEVICE float* gain() const { return memory_; }
  MNEMON_DEVICE float* bias() const {
    return memory_ + (call_.norm.gain == nullptr ? 0 : 2 * Whole(call_.weights.inputs));
  }
  MNEMON_DEVICE float* scales() const {
    return bias() + (call_.weights.bias == nullptr ? 0 : Whole(outputs()));
  }
  MNEMON_DEVICE float* weights() const {
    return scales() + (call_.weights.scales == nullptr ? 0 : Whole(outputs()));
  }

  // Up to three floats more.
  MNEMON_DEVICE static void Bring(const float* from, float* to, int64_t floats) {
    for (int i = ThreadIndex() * 4; i < floats; i += ThreadCount() * 4) {
      CopyAhead(to + i, from + i);
    }
  }

  const LinearCall& call_;
  const Part units_;
  float* const memory_;
  bool fits_ = false;
};

// Weights of one output: floats, or in bf16 words of two, kLine apart.
struct OutputSlice {
  const void* weights = nullptr;
  int width = 0;
  bool bf16 = false;
};

// Adds inputs k .. k + kCount - 1 of a slice to the sums of one output, for the first
// `rows` rows of a tile. All weights are read before the first is used. REQUIRES: k is
// a multiple of kCount, and where that is one of 4, inputs lie on 16 bytes.
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

// Of one slice of one output, for the first `rows` rows of a tile. `fours`: its inputs
// lie on 16 bytes.
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

// In int8, of the i-th slice of a tile for all outputs of a panel, by a warp: writes
// sums [rows][16]. Outputs are the rows of a product of bytes, 2 g and 2 g + 1 its rows
// g and g + 8, so that a lane reads them together; rows of the tile are its columns.
MNEMON_DEVICE void Int8SliceSums(const InputTile& tile, int rows, const PanelSlice& at,
                                 int i, float* sums) {
  static_assert(kTileRows == 8 && kPanel == 16, "the shape of a product");
  struct alignas(8) Two {
    uint32_t first, second;
  };
  struct Weights {
    Two low, high;
  };
  const int g = Lane() / 4, t = Lane() % 4;
  const auto words = static_cast<int>((at.width + 3) / 4);
  const Two* const weights = static_cast<const Two*>(at.weights) + g;
  // Behind the slice inputs are rubbish, times 0.
  const auto read = [&](int word) {
    return word < words ? weights[word * (kPanel / 2)] : Two{0, 0};
  };
  // Columns beyond the rows are any row's, and left out of the sums.
  const int32_t* const inputs = tile.words(Smaller(g, rows - 1), i) + t;
  int32_t sum[4];
  MNEMON_UNROLL
  for (int n = 0; n < 4; ++n) {
    sum[n] = tile.start(Smaller(2 * t + n % 2, rows - 1), i);
  }
  ReadAhead<2>(
      (words + 7) / 8,
      [&](int step) {
        return Weights{read(8 * step + t), read(8 * step + t + 4)};
      },
      [&](int step, const Weights& w) {
        const uint32_t a[4] = {w.low.first, w.low.second, w.high.first, w.high.second};
        const int32_t b[2] = {inputs[8 * step], inputs[8 * step + 4]};
        MultiplyBytes(a, b, sum);
      });
  MNEMON_UNROLL
  for (int n = 0; n < 4; ++n) {
    const int row = 2 * t + n % 2;
    if (row < rows) sums[row * kPanel + 2 * g + n / 2] = static_cast<float>(sum[n]);
  }
}

// Sums [slices][rows][UnitOutputs] of each of some units of the block. `matrix` is the
// call's weights or its gate, which is never there ahead.
MNEMON_DEVICE void UnitSums(const MatrixView& matrix, const LinearAhead& ahead,
                            const InputTile& tile, int slices, int rows, int64_t first,
                            Part units, float* sums) {
  const int items = static_cast<int>(units.size()) * slices;
  const auto begin = static_cast<int>(units.begin);
  if (matrix.format == WeightFormat::kInt8) {
    for (int item = WarpIndex(); item < items; item += WarpCount()) {
      const int unit = begin + item / slices, i = item % slices;
      Int8SliceSums(
          tile, rows,
          ahead.fits() ? ahead.PanelOf(unit, i) : PanelSlice(matrix, first + unit, i),
          i, sums + item * rows * kPanel);
    }
    return;
  }
  const int output = ThreadIndex() % 4;
  for (int item = ThreadIndex() / 4; item < items; item += ThreadCount() / 4) {
    const int unit = begin + item / slices, i = item % slices;
    const int number = static_cast<int>(first) + unit;
    const PanelSlice slice(matrix, number / 4, i);
    OutputSlice at{nullptr, static_cast<int>(slice.width),
                   matrix.format == WeightFormat::kBf16};
    float found[kTileRows];
    if (ahead.fits()) {
      at.weights = ahead.WeightsOf(unit, i, slices) + output;
      SliceSums<4>(at, rows, tile.inputs(0, i), tile.stride(), matrix.slice % 4 == 0,
                   found);
    } else {
      at.weights = static_cast<const float*>(slice.weights) + number % 4 * 4 + output;
      SliceSums<kPanel>(at, rows, tile.inputs(0, i), tile.stride(),
                        matrix.slice % 4 == 0, found);
    }
    MNEMON_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      if (r < rows) sums[(item * rows + r) * 4 + output] = found[r];
    }
  }
}

// Multiplies the first `rows` rows of a tile with the block's units, and calls
// finish(row, output, sum) for each output, counted from the block's first, where
// sum(i) is the sum of the i-th slice.
template <class Finish>
MNEMON_DEVICE void Products(const MatrixView& matrix, const LinearAhead& ahead,
                            const InputTile& tile, int slices, int rows, Part units,
                            float* sums, const Finish& finish) {
  const int outputs = UnitOutputs(matrix), count = static_cast<int>(units.size());
  const auto at_once =
      static_cast<int>(SumsAtOnce(matrix, slices, ThreadCount())) / slices;
  for (int unit = 0; unit < count; unit += at_once) {
    const int some = Smaller(at_once, count - unit);
    UnitSums(matrix, ahead, tile, slices, rows, units.begin, {unit, unit + some}, sums);
    Barrier();
    const int each = rows * outputs;
    for (int n = ThreadIndex(); n < some * each; n += ThreadCount()) {
      const int u = n / each, in_unit = n - u * each, row = in_unit / outputs;
      finish(row, (unit + u) * outputs + in_unit - row * outputs,
             [&](int i) { return sums[(u * slices + i) * each + in_unit]; });
    }
    Barrier();
  }
}

// Calls some(tile, first row, rows) for tiles of rows in shared memory, set from
// row(r), all threads together.
template <class Row, class Some>
MNEMON_DEVICE void EachTile(const MatrixView& matrix, Part slices, int64_t rows,
                            const NormView& norm, const SharedFloats& shared,
                            const Row& row, const Some& some) {
  const int64_t most =
      shared.count / ProductFloats(matrix, slices.size(), 1, ThreadCount());
  const int64_t at_once = Smaller<int64_t>(Smaller<int64_t>(kTileRows, rows), most);
  float* const inputs = shared.data + SumsAtOnce(matrix, slices.size(), ThreadCount()) *
                                          at_once * UnitOutputs(matrix);
  for (int64_t first = 0; first < rows; first += at_once) {
    const auto count = static_cast<int>(Smaller(at_once, rows - first));
    InputTile tile(matrix, slices, at_once, inputs);
    for (int r = WarpIndex(); r < count; r += WarpCount()) {
      tile.Set(r, row(first + r), norm);
    }
    Barrier();
    if (matrix.format == WeightFormat::kInt8) {
      const auto each = static_cast<int>(slices.size());
      for (int n = WarpIndex(); n < count * each; n += WarpCount()) {
        tile.Quantise(n / each, n % each);
      }
      Barrier();
    }
    some(tile, first, count);
  }
}

// Writes output n of row r, whose sum is there with its bias. `nothing`: SeesNothing of
// the row.
MNEMON_DEVICE void FinishLinear(const LinearCall& call, bool factor, float sum,
                                int64_t r, int64_t n, bool nothing) {
  float* const out = call.out.row(r) + n;
  sum = factor ? *out * sum : Activated(sum, call.act);
  if (factor != (call.gate != nullptr)) {
    *out = sum;
    return;
  }
  if (call.residual.data != nullptr) {
    const float before = call.residual.row(r)[n];
    sum = nothing ? before : before + sum;
  }
  *out = Flushed(sum);
}

// The more shared memory, the more rows, up to kTileRows, go at once. `ahead`: memory
// in which LinearAhead of the call has been brought, or of no floats. REQUIRES: at
// least ProductFloats of one row.
MNEMON_DEVICE void Linear(const LinearCall& call, Share share,
                          const SharedFloats& shared, const SharedFloats& memory) {
  const MatrixView& matrix = call.weights;
  const int64_t count = LinearUnits(matrix);
  const Part units{share.begin(count), share.end(count)};
  if (units.size() == 0) return;
  const LinearAhead ahead(call, units, memory);
  const auto slices = static_cast<int>(matrix.slices());
  const int64_t first = units.begin * UnitOutputs(matrix);
  EachTile(
      matrix, {0, slices}, call.rows, ahead.norm(), shared,
      [&](int64_t r) { return call.in.row(call.pick == nullptr ? r : call.pick[r]); },
      [&](const InputTile& tile, int64_t first_row, int rows) {
        for (int pass = 0; pass < (call.gate == nullptr ? 1 : 2); ++pass) {
          const bool factor = pass == 1;
          const MatrixView& with = factor ? *call.gate : matrix;
          Products(with, ahead, tile, slices, rows, units, shared.data,
                   [&](int r, int output, const auto& sum) {
                     const int64_t n = first + output;
                     if (n >= matrix.outputs) return;
                     float total = 0;
                     if (matrix.format == WeightFormat::kInt8) {
                       const float scale =
                           factor ? with.scales[n] : ahead.ScaleOf(output);
                       for (int i = 0; i < slices; ++i) {
                         total = Fma(sum(i), tile.scale(r, i) * scale, total);
                       }
                     } else {
                       total = sum(0);
                       for (int i = 1; i < slices; ++i) total += sum(i);
                     }
                     if (with.bias != nullptr) {
                       total += factor ? with.bias[n] : ahead.BiasOf(output);
                     }
                     FinishLinear(call, factor, total, first_row + r, n,
                                  SeesNothing(call.key_ranges, first_row + r));
                   });
        }
      });
}

}  // namespace mnemon::device
