// SPDX-License-Identifier: MIT
// Linear of kernels.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_LINEAR_INL_H
#undef MNEMON_SIMD_LINEAR_INL_H
#else
#define MNEMON_SIMD_LINEAR_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/kernels/cpu_operations.h"
#include "model/kernels/row_buffer.h"
#include "model/kernels/simd_int8_linear-inl.h"
#include "model/kernels/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Panels that one row keeps in flight: as many chains as the registers hold.
constexpr int kRowPanels = kParts == 1 ? 8 : 6;
// Tile of several rows: panels and rows whose sums stay in registers.
constexpr int kTilePanels = kParts == 1 ? 2 : 1;
constexpr int kTileRows = kParts == 1 ? 12 : 6;

// Inputs whose part of a panel stays in the first cache while all rows meet it.
constexpr int64_t kDepth = kScratchInputs;

// How weights are stored, for two inputs k and k + 1 of a slice together, k even.
// Before(k): what lies in a slice of a panel before them.
struct Fp32 {
  using Stored = float;
  static int64_t Before(int64_t k) { return k * kPanel; }
  static HWY_INLINE V16 Even(const float* from) { return Load16(from); }
  static HWY_INLINE V16 Odd(const float* from) { return Load16(from + kPanel); }
};
struct Bf16 {
  using Stored = uint32_t;
  static int64_t Before(int64_t k) { return (k + 1) / 2 * kPanel; }
  static HWY_INLINE V16 Even(const uint32_t* from) { return LoadLowerBf16(from); }
  static HWY_INLINE V16 Odd(const uint32_t* from) { return LoadUpperBf16(from); }
};

HWY_INLINE bool SeesNothing(const KeyRange* key_ranges, int64_t row) {
  return key_ranges != nullptr && key_ranges[row].first > key_ranges[row].last;
}

// Where the sums of a Linear go. `factor`: multiply what lies in the output already.
struct LinearEnding {
  const LinearCall& call;
  const MatrixView& matrix;
  bool factor;

  Part slices() const { return {0, matrix.slices()}; }

  HWY_INLINE void Finish(V16 sum, int64_t row, int64_t panel) const {
    const int64_t n = panel * kPanel;
    const int64_t count = std::min<int64_t>(kPanel, matrix.outputs - n);
    float* out = call.out.row(row) + n;
    if (matrix.bias != nullptr) sum = Add(sum, Load16(matrix.bias + n));
    if (factor) {
      sum = Mul(LoadSome16(out, count), sum);
    } else {
      switch (call.act) {
        case Act::kNone:
          break;
        case Act::kRelu:
          sum = IfNegative(sum, Zero16(), sum);  // NaN stays NaN
          break;
        case Act::kGelu:
          sum = Gelu16(sum);
          break;
        case Act::kSigmoid:
          sum = Sigmoid16(sum);
          break;
      }
    }
    const bool last = factor == (call.gate != nullptr);
    if (last && call.residual.data != nullptr) {
      const V16 before = LoadSome16(call.residual.row(row) + n, count);
      sum = SeesNothing(call.key_ranges, row) ? before : Add(before, sum);
    }
    StoreSome16(last ? Flush(sum) : sum, out, count);
  }
};

// Where those of Parts go, as they are.
struct PartEnding {
  const PartsCall& call;
  const MatrixView& matrix;
  Part some;
  float* out;         // of row 0 and the first slice
  bool each = false;  // slice by slice

  Part slices() const { return some; }

  HWY_INLINE void Finish(V16 sum, int64_t row, int64_t panel) const {
    const int64_t n = panel * kPanel;
    StoreSome16(sum, out + row * call.out.stride + n,
                std::min<int64_t>(kPanel, matrix.outputs - n));
  }
};

template <class Format>
HWY_INLINE const typename Format::Stored* SliceOf(const MatrixView& matrix,
                                                  int64_t panel, int64_t slice) {
  return reinterpret_cast<const typename Format::Stored*>(
      static_cast<const char*>(matrix.panels) + panel * matrix.panel_bytes +
      slice * matrix.slice_bytes);
}

// Sums of one row over slice `s` with `kPanels` panels at once.
template <class Format, int kPanels>
HWY_INLINE void AddSlice(const float* x, const MatrixView& matrix, int64_t panel,
                         int64_t s, V16* sum) {
  const int64_t begin = s * matrix.slice;
  const int64_t width = std::min(matrix.slice, matrix.inputs - begin);
  const int64_t size =
      matrix.panel_bytes / static_cast<int64_t>(sizeof(typename Format::Stored));
  const auto* at = SliceOf<Format>(matrix, panel, s);
  x += begin;
  for (int p = 0; p < kPanels; ++p) sum[p] = Zero16();
  const auto add_two = [&](int64_t k) {
    const V16 even = Set16(x[k]), odd = Set16(x[k + 1]);
    for (int p = 0; p < kPanels; ++p) {
      sum[p] = Fma(even, Format::Even(at + p * size), sum[p]);
      sum[p] = Fma(odd, Format::Odd(at + p * size), sum[p]);
    }
    at += Format::Before(2);
  };
  constexpr int64_t kUsual = SliceWidth(1);
  if (width == kUsual) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kUsual; k += 2) add_two(k);
    return;
  }
  int64_t k = 0;
  for (; k + 2 <= width; k += 2) add_two(k);
  if (k == width) return;
  const V16 even = Set16(x[k]);
  for (int p = 0; p < kPanels; ++p) {
    sum[p] = Fma(even, Format::Even(at + p * size), sum[p]);
  }
}

template <class Format, int kPanels, class Ending>
HWY_INLINE void RowPanels(const float* x, int64_t panel, const Ending& ending) {
  V16 total[kPanels], sum[kPanels];
  const Part slices = ending.slices();
  if constexpr (std::is_same_v<Ending, PartEnding>) {
    if (ending.each) {
      PartEnding one = ending;
      for (int64_t s = slices.begin; s < slices.end; ++s) {
        AddSlice<Format, kPanels>(x, ending.matrix, panel, s, sum);
        for (int p = 0; p < kPanels; ++p) one.Finish(sum[p], 0, panel + p);
        one.out += ending.call.part_stride;
      }
      return;
    }
  }
  AddSlice<Format, kPanels>(x, ending.matrix, panel, slices.begin, total);
  for (int64_t s = slices.begin + 1; s < slices.end; ++s) {
    AddSlice<Format, kPanels>(x, ending.matrix, panel, s, sum);
    for (int p = 0; p < kPanels; ++p) total[p] = Add(total[p], sum[p]);
  }
  for (int p = 0; p < kPanels; ++p) ending.Finish(total[p], 0, panel + p);
}

// As many panels as stay in registers, then fewer.
template <class Format, class Ending>
void OneRow(const float* x, int64_t begin, int64_t end, const Ending& ending) {
  int64_t panel = begin;
  for (; panel + kRowPanels <= end; panel += kRowPanels) {
    RowPanels<Format, kRowPanels>(x, panel, ending);
  }
  for (; panel + 4 <= end; panel += 4) RowPanels<Format, 4>(x, panel, ending);
  for (; panel + 2 <= end; panel += 2) RowPanels<Format, 2>(x, panel, ending);
  for (; panel < end; ++panel) RowPanels<Format, 1>(x, panel, ending);
}

// Some inputs of a few panels in float32: whole slices, or a part of one, whose sums go
// on where they were left.
struct Stretch {
  int64_t begin = 0;  // of the inputs
  int64_t count = 0;  // of inputs, of each slice
  int64_t slices = 1;
  bool first = false;               // totals begin with the first slice of it
  bool begins = true, ends = true;  // a slice, both unless it is a part of one
  const float* weights = nullptr;   // of input `begin`, first panel
  int64_t size = 0;                 // from panel to panel
  int64_t jump = 0;                 // from the end of a slice to the next one
  // What comes next as it is stored, likewise: where, and bytes from panel to panel and
  // from input to input.
  const char* next = nullptr;
  int64_t next_size = 0;
  int64_t next_step = 0;
};

// What a tile asks for ahead of its use: bytes from `at` on, `step` for each of its own
// inputs. The tiles of a stretch share what comes next, so that it is near when its
// turn comes and memory is never asked for much at once. With few rows there is one
// tile for several panels: then memory sets the pace, and the processor itself fetches
// ahead.
struct Ahead {
  const char* at = nullptr;
  int64_t step = 0;

  Ahead(const Stretch& stretch, int64_t panels, int64_t tile, int64_t tiles) {
    // Tiles that share a panel: each asks for some bytes for each of its inputs.
    constexpr int64_t kMost = 8;
    const int64_t panel = tile % panels, before = tile / panels;
    const int64_t together = std::min(kMost, (tiles - panel + panels - 1) / panels);
    const int64_t each = stretch.next_step / together;
    at = stretch.next + panel * stretch.next_size +
         before * stretch.count * stretch.slices * each;
    step = before < together ? each : 0;
  }
};

// Adds to totals [kRows][kPanels][16]; sums that a stretch leaves unfinished are kept
// behind them, at `pending`. A function of its own: there the sums and the addresses of
// all rows stay in registers.
template <int kRows, int kPanels>
HWY_NOINLINE void AddTile(const float* x, int64_t stride, const Stretch& stretch,
                          Ahead ahead, float* totals, float* pending) {
  V16 sum[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      sum[r][p] = stretch.begins ? Zero16() : Load16(pending + (r * kPanels + p) * 16);
    }
  }
  const float* at = stretch.weights;
  const int64_t size = stretch.size, count = stretch.count;
  // Three rows share one moving address: there are not enough registers for one a row,
  // which the compiler would make of them if it saw what they have in common.
  constexpr int kBases = (kRows + 2) / 3;
  const float* base[kBases];
#pragma GCC unroll 16
  for (int i = 0; i < kBases; ++i) base[i] = x + 3 * i * stride;
  bool first = stretch.first;
  for (int64_t left = stretch.slices; left > 0; --left, at += stretch.jump) {
    for (const float* const end = at + count * kPanel; at != end; at += kPanel) {
      V16 w[kPanels];
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) w[p] = Load16(at + p * size);
      __builtin_prefetch(ahead.at, /*write=*/0, /*second cache*/ 2);
      ahead.at += ahead.step;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const V16 one = Set16(base[r / 3][r % 3 * stride]);
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) sum[r][p] = Fma(one, w[p], sum[r][p]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kBases; ++i) {
        ++base[i];
        asm("" : "+r"(base[i]));
      }
    }
    float* const to = stretch.ends ? totals : pending;
    if (!first && stretch.ends) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (int p = 0; p < kPanels; ++p) {
          sum[r][p] = Add(sum[r][p], Load16(to + (r * kPanels + p) * 16));
        }
      }
    }
    first = false;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        Store16(sum[r][p], to + (r * kPanels + p) * 16);
        sum[r][p] = Zero16();
      }
    }
  }
}

// AddTile<rows, kPanels>, rows in 1 .. kMost.
template <int kPanels, int kMost>
HWY_INLINE void AddTileOf(int64_t rows, const float* x, int64_t stride,
                          const Stretch& stretch, Ahead ahead, float* totals,
                          float* pending) {
  if constexpr (kMost > 1) {
    if (rows < kMost) {
      return AddTileOf<kPanels, kMost - 1>(rows, x, stride, stretch, ahead, totals,
                                           pending);
    }
  }
  AddTile<kMost, kPanels>(x, stride, stretch, ahead, totals, pending);
}

// Adds a stretch to the totals of all rows, [rows][kPanels][16], in tiles of like size:
// a small one at the end would leave the arithmetic units idle. `pending` is as large.
template <int kPanels>
void AddStretch(const ConstRows& in, int64_t rows, const Stretch& stretch,
                float* totals, float* pending) {
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = rows * t / tiles, next = rows * (t + 1) / tiles;
    const int64_t at = row * kPanels * kPanel;
    AddTileOf<kPanels, kTileRows>(next - row, in.row(row) + stretch.begin, in.stride,
                                  stretch, Ahead(stretch, kPanels, t, tiles),
                                  totals + at, pending + at);
  }
}

template <class Format>
void Widen(const typename Format::Stored* from, int64_t inputs, float* to) {
  for (int64_t k = 0; k < inputs; k += 2) {
    Store16(Format::Even(from + Format::Before(k)), to + k * kPanel);
    Store16(Format::Odd(from + Format::Before(k)), to + (k + 1) * kPanel);
  }
}

// Cuts the inputs of some slices of a matrix into stretches of at most kDepth: whole
// slices as long as they fit, else parts of one.
class Stretches {
 public:
  Stretches(const MatrixView& matrix, Part slices)
      : slice_(matrix.slice),
        first_(slices.begin * slice_),
        end_(std::min(slices.end * slice_, matrix.inputs)),
        begin_(first_) {}

  bool done() const { return begin_ == end_; }

  // The next one; false: there is none.
  bool Next(Stretch& stretch) {
    if (done()) return false;
    const int64_t within = begin_ % slice_;
    const int64_t whole = (end_ - begin_) / slice_;
    stretch.begin = begin_;
    stretch.first = begin_ < first_ + slice_;
    stretch.begins = within == 0;
    if (within == 0 && whole > 0 && slice_ <= kDepth) {
      stretch.count = slice_;
      stretch.slices = std::min(whole, kDepth / slice_);
      stretch.ends = true;
    } else {
      const int64_t left = std::min(slice_ - within, end_ - begin_);
      stretch.count = std::min(kDepth, left);
      stretch.slices = 1;
      stretch.ends = stretch.count == left;
    }
    begin_ += stretch.count * stretch.slices;
    return true;
  }

 private:
  const int64_t slice_, first_, end_;
  int64_t begin_;
};

// Sums of all rows with `kPanels` panels. The weights are float32, or become so stretch
// by stretch in `wide` [kPanels][kDepth + 1][16].
template <class Format, int kPanels, class Ending>
void RowsPanels(const ConstRows& in, int64_t rows, int64_t panel, float* totals,
                float* wide, const Ending& ending) {
  using Stored = typename Format::Stored;
  constexpr auto kStored = static_cast<int64_t>(sizeof(Stored));
  const MatrixView& matrix = ending.matrix;
  const auto stored_at = [&](int64_t input) {
    return SliceOf<Format>(matrix, panel, input / matrix.slice) +
           Format::Before(input % matrix.slice);
  };
  Stretches stretches(matrix, ending.slices());
  for (Stretch stretch; stretches.Next(stretch);) {
    const Stored* const from = stored_at(stretch.begin);
    const int64_t size = matrix.panel_bytes / kStored;
    if constexpr (std::is_same_v<Format, Fp32>) {
      stretch.weights = from;
      stretch.size = size;
      stretch.jump = matrix.slice_bytes / kStored - stretch.count * kPanel;
    } else {
      stretch.weights = wide;
      stretch.size = (kDepth + 1) * kPanel;
      for (int p = 0; p < kPanels; ++p) {
        for (int64_t s = 0; s < stretch.slices; ++s) {
          Widen<Format>(from + p * size + s * (matrix.slice_bytes / kStored),
                        stretch.count,
                        wide + p * stretch.size + s * stretch.count * kPanel);
        }
      }
    }
    const int64_t end = stretch.begin + stretch.count * stretch.slices;
    const Stored* const next =
        stretches.done()
            ? SliceOf<Format>(matrix, panel, ending.slices().begin) + kPanels * size
            : stored_at(end);
    stretch.next = reinterpret_cast<const char*>(next);
    stretch.next_size = matrix.panel_bytes;
    stretch.next_step = Format::Before(2) * kStored / 2;
    AddStretch<kPanels>(in, rows, stretch, totals, totals + rows * kPanels * kPanel);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      ending.Finish(Load16(totals + (r * kPanels + p) * kPanel), r, panel + p);
    }
  }
}

template <class Format, class Ending>
void Multiply(const ConstRows& in, int64_t rows, int64_t begin, int64_t end,
              float* scratch, const Ending& ending) {
  if (rows == 1) return OneRow<Format>(in.row(0), begin, end, ending);
  float* const wide = scratch + 2 * rows * kTilePanels * kPanel;
  int64_t panel = begin;
  for (; panel + kTilePanels <= end; panel += kTilePanels) {
    RowsPanels<Format, kTilePanels>(in, rows, panel, scratch, wide, ending);
  }
  for (; panel < end; ++panel) {
    RowsPanels<Format, 1>(in, rows, panel, scratch, wide, ending);
  }
}

template <class Ending>
void MultiplyShare(const ConstRows& in, int64_t rows, Share share, float* scratch,
                   const Ending& ending) {
  const int64_t panels = ending.matrix.panel_count();
  const int64_t begin = share.begin(panels), end = share.end(panels);
  switch (ending.matrix.format) {
    case WeightFormat::kFp32:
      return Multiply<Fp32>(in, rows, begin, end, scratch, ending);
    case WeightFormat::kBf16:
      return Multiply<Bf16>(in, rows, begin, end, scratch, ending);
    case WeightFormat::kInt8:
      break;
  }
}

void NormRow(const float* in, int64_t width, const NormView& norm, float* out) {
  V16 sum = Zero16();
  for (int64_t i = 0; i < width; i += 16) {
    sum = Add(sum, LoadSome16(in + i, width - i));
  }
  const float count = static_cast<float>(width);
  const V16 mean = Set16(Sum16(sum) / count);
  V16 squares = Zero16();
  for (int64_t i = 0; i < width; i += 16) {
    const int64_t left = width - i;
    V16 away = Sub(LoadSome16(in + i, left), mean);
    if (left < 16) {
      HWY_ALIGN float lane[16];
      Store16(away, lane);
      away = LoadSome16(lane, left);
    }
    squares = Fma(away, away, squares);
  }
  const V16 scale = Set16(1.0f / std::sqrt(Sum16(squares) / count + 1e-5f));
  for (int64_t i = 0; i < width; i += 16) {
    const int64_t left = width - i;
    const V16 unit = Mul(Sub(LoadSome16(in + i, left), mean), scale);
    StoreSome16(Flush(Fma(unit, LoadSome16(norm.gain + i, left),
                          LoadSome16(norm.bias + i, left))),
                out + i, left);
  }
}

void LinearOfInt8(const Int8Kernels& kernels, const LinearCall& call, Share share,
                  float* scratch) {
  const MatrixView& matrix = call.weights;
  const Part slices = {0, matrix.slices()};
  float* const normed = scratch;
  Int8Rows rows(kernels, call.rows, matrix, slices, scratch + RowStride(matrix.inputs));
  for (int64_t r = 0; r < call.rows; ++r) {
    const float* from = call.in.row(call.pick == nullptr ? r : call.pick[r]);
    if (call.norm.gain != nullptr) {
      NormRow(from, matrix.inputs, call.norm, normed);
      from = normed;
    } else if (call.rows == 1) {
      Fetch(from, matrix.inputs);
    }
    rows.Set(r, from);
  }
  rows.Multiply(slices, /*scaled=*/true, share, rows.end(),
                LinearEnding{call, matrix, /*factor=*/false});
  if (call.gate != nullptr) {
    rows.Multiply(slices, /*scaled=*/true, share, rows.end(),
                  LinearEnding{call, *call.gate, /*factor=*/true});
  }
}

void PartsOfInt8(const Int8Kernels& kernels, const PartsCall& call, Share share,
                 float* scratch) {
  Int8Rows rows(kernels, call.rows, call.weights, call.slices, scratch);
  for (int64_t r = 0; r < call.rows; ++r) {
    rows.Set(r, call.in.row(r));
    // All workers have the same ones.
    if (call.each && share.index == 0) {
      std::copy_n(rows.scales(r), call.slices.size(), call.scales.row(r));
    }
  }
  if (!call.each) {
    return rows.Multiply(call.slices, /*scaled=*/true, share, rows.end(),
                         PartEnding{call, call.weights, call.slices, call.out.data});
  }
  float* out = call.out.data;
  for (int64_t s = call.slices.begin; s < call.slices.end; ++s) {
    rows.Multiply({s, s + 1}, /*scaled=*/false, share, rows.end(),
                  PartEnding{call, call.weights, {s, s + 1}, out});
    out += call.part_stride;
  }
}

// Every worker norms all rows itself, and makes int8 of them: cheaper than to wait for
// the others.
template <const Int8Kernels& kInt8>
void Linear(const LinearCall& call, Share share, float* scratch) {
  if (call.weights.format == WeightFormat::kInt8) {
    return LinearOfInt8(kInt8, call, share, scratch);
  }
  ConstRows in = call.in;
  const int64_t inputs = call.weights.inputs, stride = RowStride(inputs);
  if (call.norm.gain != nullptr || call.pick != nullptr) {
    for (int64_t r = 0; r < call.rows; ++r) {
      const float* from = call.in.row(call.pick == nullptr ? r : call.pick[r]);
      float* to = scratch + r * stride;
      if (call.norm.gain != nullptr) {
        NormRow(from, inputs, call.norm, to);
      } else {
        std::copy_n(from, inputs, to);
      }
    }
    in = ConstRows(scratch, stride);
  } else if (call.rows == 1) {
    Fetch(in.row(0), inputs);
  }
  float* rest = scratch + call.rows * stride;
  MultiplyShare(in, call.rows, share, rest,
                LinearEnding{call, call.weights, /*factor=*/false});
  if (call.gate != nullptr) {
    MultiplyShare(in, call.rows, share, rest,
                  LinearEnding{call, *call.gate, /*factor=*/true});
  }
}

template <const Int8Kernels& kInt8>
void Parts(const PartsCall& call, Share share, float* scratch) {
  if (call.weights.format == WeightFormat::kInt8) {
    return PartsOfInt8(kInt8, call, share, scratch);
  }
  if (!call.each || call.rows == 1) {
    return MultiplyShare(
        call.in, call.rows, share, scratch,
        PartEnding{call, call.weights, call.slices, call.out.data, call.each});
  }
  float* out = call.out.data;
  for (int64_t s = call.slices.begin; s < call.slices.end; ++s) {
    MultiplyShare(call.in, call.rows, share, scratch,
                  PartEnding{call, call.weights, {s, s + 1}, out});
    out += call.part_stride;
  }
}

void Fold(const FoldCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    const float *const in = call.in.row(r), *const before = call.residual.row(r);
    const bool keeps = SeesNothing(call.key_ranges, r);
    for (int64_t i = 0; i < call.width; i += 16) {
      const int64_t left = call.width - i;
      const auto part = [&](int64_t p) {
        return LoadSome16(in + p * call.part_stride + i, left);
      };
      V16 sum;
      if (call.scales == nullptr) {
        sum = part(0);
        for (int64_t p = 1; p < call.parts; ++p) sum = Add(sum, part(p));
      } else {
        const V16 scales = LoadSome16(call.scales + i, left);
        sum = call.first_scaled > 0 ? part(0) : Zero16();
        for (int64_t p = call.first_scaled; p < call.parts; ++p) {
          const float scale = call.part_scales.row(r)[p - call.first_scaled];
          sum = Fma(part(p), Mul(Set16(scale), scales), sum);
        }
      }
      if (call.bias != nullptr) sum = Add(sum, LoadSome16(call.bias + i, left));
      const V16 residual = LoadSome16(before + i, left);
      StoreSome16(keeps ? residual : Flush(Add(residual, sum)), call.out.row(r) + i,
                  left);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_LINEAR_INL_H
