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

// How weights are stored, for two inputs k and k + 1 together, k even. Before(k): what
// lies in a panel before them; Before(K) is all of it.
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

// Where the sums of a call go. `factor`: multiply what lies in the output already.
struct Ending {
  const LinearCall& call;
  const MatrixView& matrix;
  bool factor;

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
      sum = Add(LoadSome16(call.residual.row(row) + n, count), sum);
    }
    StoreSome16(sum, out, count);
  }
};

// Inputs begin .. end-1, begin even, of a longer sum: what went before lies in
// `partial` [rows][kTilePanels][16] unless `begin` is 0, and the sum goes there unless
// `end` is the last.
template <class Format>
struct Stretch {
  int64_t begin = 0;
  int64_t end = 0;
  const typename Format::Stored* weights = nullptr;  // of input `begin`, first panel
  int64_t size = 0;                                  // from panel to panel
  float* partial = nullptr;
};

// `rows` x `panels` sums at once, k in order.
template <class Format, int kRows, int kPanels>
HWY_INLINE void Tile(const ConstRows& in, int64_t row, int64_t panel,
                     const Stretch<Format>& stretch, const Ending& ending) {
  const auto partial = [&](int r, int p) {
    return stretch.partial + ((row + r) * kTilePanels + p) * kPanel;
  };
  V16 sum[kRows][kPanels];
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      sum[r][p] = Zero16();
      if (stretch.begin > 0) sum[r][p] = Load16(partial(r, p));
    }
  }
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = in.row(row + r);
  const auto* at = stretch.weights;
  int64_t k = stretch.begin;
  for (; k + 2 <= stretch.end; k += 2, at += Format::Before(2)) {
    V16 w[kPanels];
    for (int p = 0; p < kPanels; ++p) w[p] = Format::Even(at + p * stretch.size);
    for (int r = 0; r < kRows; ++r) {
      const V16 one = Set16(x[r][k]);
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Fma(one, w[p], sum[r][p]);
    }
    for (int p = 0; p < kPanels; ++p) w[p] = Format::Odd(at + p * stretch.size);
    for (int r = 0; r < kRows; ++r) {
      const V16 one = Set16(x[r][k + 1]);
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Fma(one, w[p], sum[r][p]);
    }
  }
  if (k < stretch.end) {
    for (int p = 0; p < kPanels; ++p) {
      const V16 w = Format::Even(at + p * stretch.size);
      for (int r = 0; r < kRows; ++r) sum[r][p] = Fma(Set16(x[r][k]), w, sum[r][p]);
    }
  }
  const bool done = stretch.end == ending.matrix.inputs;
  for (int r = 0; r < kRows; ++r) {
    for (int p = 0; p < kPanels; ++p) {
      if (done) {
        ending.Finish(sum[r][p], row + r, panel + p);
      } else {
        Store16(sum[r][p], partial(r, p));
      }
    }
  }
}

// One row: as many panels as stay in registers, then fewer.
template <class Format>
void OneRow(const ConstRows& in, int64_t begin, int64_t end, const Ending& ending) {
  Stretch<Format> whole{.end = ending.matrix.inputs,
                        .size = Format::Before(ending.matrix.inputs)};
  const auto* panels =
      static_cast<const typename Format::Stored*>(ending.matrix.panels);
  int64_t panel = begin;
  const auto next = [&](int64_t count) {
    whole.weights = panels + panel * whole.size;
    return panel + count <= end;
  };
  for (; next(kRowPanels); panel += kRowPanels) {
    Tile<Format, 1, kRowPanels>(in, 0, panel, whole, ending);
  }
  for (; next(4); panel += 4) Tile<Format, 1, 4>(in, 0, panel, whole, ending);
  for (; next(2); panel += 2) Tile<Format, 1, 2>(in, 0, panel, whole, ending);
  for (; next(1); ++panel) Tile<Format, 1, 1>(in, 0, panel, whole, ending);
}

template <int kPanels>
void PanelsOfRows(const ConstRows& in, int64_t rows, int64_t panel,
                  const Stretch<Fp32>& stretch, const Ending& ending) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    Tile<Fp32, kTileRows, kPanels>(in, row, panel, stretch, ending);
  }
  for (; row + 4 <= rows; row += 4) {
    Tile<Fp32, 4, kPanels>(in, row, panel, stretch, ending);
  }
  for (; row + 2 <= rows; row += 2) {
    Tile<Fp32, 2, kPanels>(in, row, panel, stretch, ending);
  }
  for (; row < rows; ++row) {
    Tile<Fp32, 1, kPanels>(in, row, panel, stretch, ending);
  }
}

template <class Format>
void Widen(const typename Format::Stored* from, int64_t inputs, float* to) {
  for (int64_t k = 0; k < inputs; k += 2) {
    Store16(Format::Even(from + Format::Before(k)), to + k * kPanel);
    Store16(Format::Odd(from + Format::Before(k)), to + (k + 1) * kPanel);
  }
}

// Several rows meet the weights as float32: those of a stretch are widened once.
template <class Format>
void Multiply(const ConstRows& in, int64_t rows, int64_t begin, int64_t end,
              float* scratch, const Ending& ending) {
  if (rows == 1) return OneRow<Format>(in, begin, end, ending);
  const int64_t inputs = ending.matrix.inputs, size = Format::Before(inputs);
  const auto* panels =
      static_cast<const typename Format::Stored*>(ending.matrix.panels);
  float* wide = scratch + rows * kTilePanels * kPanel;  // [kTilePanels][kDepth][16]
  for (int64_t panel = begin; panel < end;) {
    const int64_t count = panel + kTilePanels <= end ? kTilePanels : 1;
    for (int64_t k = 0; k < inputs; k += kDepth) {
      Stretch<Fp32> stretch{
          .begin = k, .end = std::min(k + kDepth, inputs), .partial = scratch};
      const auto* stored = panels + panel * size + Format::Before(k);
      if constexpr (std::is_same_v<Format, Fp32>) {
        stretch.weights = stored;
        stretch.size = size;
      } else {
        stretch.weights = wide;
        stretch.size = kDepth * kPanel;
        for (int64_t p = 0; p < count; ++p) {
          Widen<Format>(stored + p * size, stretch.end - k, wide + p * stretch.size);
        }
      }
      if (count == kTilePanels) {
        PanelsOfRows<kTilePanels>(in, rows, panel, stretch, ending);
      } else {
        PanelsOfRows<1>(in, rows, panel, stretch, ending);
      }
    }
    panel += count;
  }
}

void MultiplyBy(const MatrixView& matrix, bool factor, const LinearCall& call,
                const ConstRows& in, Share share, float* scratch) {
  const int64_t panels = (matrix.outputs + kPanel - 1) / kPanel;
  const Ending ending{call, matrix, factor};
  const int64_t begin = share.begin(panels), end = share.end(panels);
  switch (matrix.format) {
    case WeightFormat::kFp32:
      return Multiply<Fp32>(in, call.rows, begin, end, scratch, ending);
    case WeightFormat::kBf16:
      return Multiply<Bf16>(in, call.rows, begin, end, scratch, ending);
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
    StoreSome16(
        Fma(unit, LoadSome16(norm.gain + i, left), LoadSome16(norm.bias + i, left)),
        out + i, left);
  }
}

// Every worker norms all rows itself: cheaper than to wait for the others.
void Linear(const LinearCall& call, Share share, float* scratch) {
  ConstRows in = call.in;
  const int64_t inputs = call.weights.inputs;
  if (call.norm.gain != nullptr || call.pick != nullptr) {
    for (int64_t r = 0; r < call.rows; ++r) {
      const float* from = call.in.row(call.pick == nullptr ? r : call.pick[r]);
      float* to = scratch + r * inputs;
      if (call.norm.gain != nullptr) {
        NormRow(from, inputs, call.norm, to);
      } else {
        std::copy_n(from, inputs, to);
      }
    }
    in = ConstRows(scratch, inputs);
  }
  float* rest = scratch + call.rows * inputs;
  MultiplyBy(call.weights, /*factor=*/false, call, in, share, rest);
  if (call.gate != nullptr) {
    MultiplyBy(*call.gate, /*factor=*/true, call, in, share, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_LINEAR_INL_H
