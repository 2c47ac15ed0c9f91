// SPDX-License-Identifier: MIT
// Linear and Parts of kernels.h on a device. All threads of a block call them; the
// block is the share's worker and computes its panels of all rows.
//
// A thread sums one slice of one output for up to kTileRows rows, with one accumulator
// for each, so that a weight is read once for them; in int8 a warp multiplies a slice
// of a panel. A block does so with the slices of several panels side by side. The
// partial sums meet in shared memory, where one thread for each output and row adds its
// slices upward. C++17.
#pragma once

#include "model/kernels/cuda/input_tile.h"

namespace mnemon::device {

// Sums that `threads` threads make at once, 16 outputs each: whole panels of slices.
inline constexpr int64_t SumsAtOnce(int64_t slices, int threads) {
  if (slices == 0) return 0;
  const int64_t sums = threads / kPanel;
  return sums <= slices ? slices : sums - sums % slices;
}

// Floats of shared memory with which `rows` rows go at once, and `slices` slices.
inline constexpr int64_t ProductFloats(const MatrixView& matrix, int64_t slices,
                                       int64_t rows, int threads) {
  return SumsAtOnce(slices, threads) * rows * kPanel +
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

// Adds inputs k .. k + kCount - 1 of a slice to the sums of one output, for the first
// `rows` rows of a tile. All weights are read before the first is used. REQUIRES: k is
// a multiple of kCount, and where that is one of 4, inputs lie on 16 bytes.
template <int kCount>
MNEMON_DEVICE void AddInputs(const PanelSlice& at, bool bf16, int64_t k, int output,
                             const InputTile& tile, int rows, const float* inputs,
                             float* sums) {
  float weight[kCount];
  if (bf16) {
    uint32_t words[(kCount + 1) / 2];
    const auto* const from = static_cast<const uint32_t*>(at.weights) + output;
    MNEMON_UNROLL
    for (int i = 0; i < (kCount + 1) / 2; ++i) words[i] = from[(k / 2 + i) * kPanel];
    MNEMON_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const bool high = (kCount == 1 ? k : i) % 2 == 1;
      weight[i] = BitsAsFloat(high ? words[i / 2] & 0xFFFF0000u : words[i / 2] << 16);
    }
  } else {
    const auto* const from = static_cast<const float*>(at.weights) + output;
    MNEMON_UNROLL
    for (int i = 0; i < kCount; ++i) weight[i] = from[(k + i) * kPanel];
  }
  MNEMON_UNROLL
  for (int r = 0; r < kTileRows; ++r) {
    if (r >= rows) break;
    const float* const x = inputs + r * tile.stride() + k;
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

// Of one slice of one output, for the first `rows` rows of a tile.
MNEMON_DEVICE void SliceSums(const MatrixView& matrix, const InputTile& tile, int rows,
                             const PanelSlice& at, int64_t slice, int output,
                             float* sums) {
  MNEMON_UNROLL
  for (int r = 0; r < kTileRows; ++r) sums[r] = 0;
  const bool bf16 = matrix.format == WeightFormat::kBf16;
  const float* const inputs = tile.inputs(0, slice);
  int64_t k = 0;
  if (matrix.slice % 4 == 0) {
    MNEMON_NO_UNROLL
    for (; k + 32 <= at.width; k += 32)
      AddInputs<32>(at, bf16, k, output, tile, rows, inputs, sums);
    MNEMON_NO_UNROLL
    for (; k + 8 <= at.width; k += 8)
      AddInputs<8>(at, bf16, k, output, tile, rows, inputs, sums);
  }
  MNEMON_NO_UNROLL
  for (; k < at.width; ++k) AddInputs<1>(at, bf16, k, output, tile, rows, inputs, sums);
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

// Sums [slices][rows][16] of each of some panels.
MNEMON_DEVICE void PanelSums(const MatrixView& matrix, const InputTile& tile,
                             Part slices, int rows, Part panels, float* sums) {
  const auto count = static_cast<int>(slices.size());
  const int items = static_cast<int>(panels.size()) * count;
  if (matrix.format == WeightFormat::kInt8) {
    for (int item = WarpIndex(); item < items; item += WarpCount()) {
      const int panel = item / count, i = item - panel * count;
      Int8SliceSums(tile, rows,
                    PanelSlice(matrix, panels.begin + panel, slices.begin + i), i,
                    sums + item * rows * kPanel);
    }
    return;
  }
  const int output = ThreadIndex() % kPanel;
  for (int item = ThreadIndex() / kPanel; item < items;
       item += ThreadCount() / kPanel) {
    const int panel = item / count, i = item - panel * count;
    float found[kTileRows];
    SliceSums(matrix, tile, rows,
              PanelSlice(matrix, panels.begin + panel, slices.begin + i),
              slices.begin + i, output, found);
    MNEMON_UNROLL
    for (int r = 0; r < kTileRows; ++r) {
      if (r < rows) sums[(item * rows + r) * kPanel + output] = found[r];
    }
  }
}

// Multiplies the first `rows` rows of a tile with panels begin .. end-1, and calls
// finish(row, n, sum) for each output, where sum(i) is the sum of the i-th slice.
template <class Finish>
MNEMON_DEVICE void Products(const MatrixView& matrix, const InputTile& tile,
                            Part slices, int rows, Part panels, float* sums,
                            const Finish& finish) {
  const auto count = static_cast<int>(slices.size());
  const int64_t at_once = SumsAtOnce(count, ThreadCount()) / count;
  for (int64_t panel = panels.begin; panel < panels.end; panel += at_once) {
    const int64_t some = Smaller(at_once, panels.end - panel);
    PanelSums(matrix, tile, slices, rows, {panel, panel + some}, sums);
    Barrier();
    const int each = rows * kPanel;
    for (int n = ThreadIndex(); n < static_cast<int>(some) * each; n += ThreadCount()) {
      const int p = n / each, in_panel = n - p * each;
      const int64_t number = (panel + p) * kPanel + n % kPanel;
      if (number >= matrix.outputs) continue;
      finish(in_panel / kPanel, number,
             [&](int i) { return sums[(p * count + i) * each + in_panel]; });
    }
    Barrier();
  }
}

// The slices of a row together, upward.
template <class Sum>
MNEMON_DEVICE float Total(const MatrixView& matrix, const InputTile& tile, int slices,
                          int row, int64_t n, const Sum& sum) {
  if (matrix.format == WeightFormat::kInt8) {
    float total = 0;
    for (int i = 0; i < slices; ++i) {
      total = Fma(sum(i), tile.scale(row, i) * matrix.scales[n], total);
    }
    return total;
  }
  float total = sum(0);
  for (int i = 1; i < slices; ++i) total += sum(i);
  return total;
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
  float* const inputs =
      shared.data + SumsAtOnce(slices.size(), ThreadCount()) * at_once * kPanel;
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

// Writes output n of row r, whose sum is there. `nothing`: SeesNothing of the row.
MNEMON_DEVICE void FinishLinear(const LinearCall& call, const MatrixView& matrix,
                                bool factor, float sum, int64_t r, int64_t n,
                                bool nothing) {
  float* const out = call.out.row(r) + n;
  if (matrix.bias != nullptr) sum += matrix.bias[n];
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

// The more shared memory, the more rows, up to kTileRows, go at once. REQUIRES: at
// least ProductFloats of one row.
MNEMON_DEVICE void Linear(const LinearCall& call, Share share,
                          const SharedFloats& shared) {
  const MatrixView& matrix = call.weights;
  const Part slices{0, matrix.slices()};
  const auto count = static_cast<int>(slices.size());
  const Part panels{share.begin(matrix.panel_count()), share.end(matrix.panel_count())};
  if (panels.size() == 0) return;
  EachTile(
      matrix, slices, call.rows, call.norm, shared,
      [&](int64_t r) { return call.in.row(call.pick == nullptr ? r : call.pick[r]); },
      [&](const InputTile& tile, int64_t first, int rows) {
        for (int pass = 0; pass < (call.gate == nullptr ? 1 : 2); ++pass) {
          const bool factor = pass == 1;
          const MatrixView& with = factor ? *call.gate : matrix;
          Products(with, tile, slices, rows, panels, shared.data,
                   [&](int r, int64_t n, const auto& sum) {
                     FinishLinear(call, with, factor,
                                  Total(with, tile, count, r, n, sum), first + r, n,
                                  SeesNothing(call.key_ranges, first + r));
                   });
        }
      });
}

// Likewise.
MNEMON_DEVICE void Parts(const PartsCall& call, Share share,
                         const SharedFloats& shared) {
  const MatrixView& matrix = call.weights;
  const auto slices = static_cast<int>(call.slices.size());
  if (slices == 0) return;
  const Part panels{share.begin(matrix.panel_count()), share.end(matrix.panel_count())};
  const bool scales = call.each && matrix.format == WeightFormat::kInt8;
  EachTile(
      matrix, call.slices, call.rows, NormView{}, shared,
      [&](int64_t r) { return call.in.row(r); },
      [&](const InputTile& tile, int64_t first, int rows) {
        Products(matrix, tile, call.slices, rows, panels, shared.data,
                 [&](int r, int64_t n, const auto& sum) {
                   float* const out = call.out.row(first + r) + n;
                   if (!call.each) {
                     *out = Total(matrix, tile, slices, r, n, sum);
                     return;
                   }
                   for (int i = 0; i < slices; ++i) {
                     out[i * call.part_stride] = sum(i);
                   }
                 });
        // They are the same for every worker: the first one writes them.
        for (int n = ThreadIndex(); scales && share.index == 0 && n < rows * slices;
             n += ThreadCount()) {
          call.scales.row(first + n / slices)[n % slices] =
              tile.scale(n / slices, n % slices);
        }
        if (scales) Barrier();
      });
}

}  // namespace mnemon::device
