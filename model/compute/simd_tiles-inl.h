// SPDX-License-Identifier: MIT
// The product of several rows with panels of float weights, in tiles. Included once per
// target by Highway.
#if defined(MNEMON_SIMD_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_TILES_INL_H
#undef MNEMON_SIMD_TILES_INL_H
#else
#define MNEMON_SIMD_TILES_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "model/compute/simd_slices-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Panels and rows of a tile whose sums stay in registers.
constexpr int kTilePanels = kParts == 1 ? 2 : 1;
constexpr int kTileRows = kParts == 1 ? 12 : kParts < 16 ? 6 : 2;

// Inputs whose part of a panel stays in the L1 cache while it is multiplied with all
// rows.
constexpr int64_t kDepth = kScratchInputs;

// Some inputs of a few panels in float32: whole slices, or a part of one, whose sums
// continue from the part before.
struct Stretch {
  int64_t begin = 0;  // of the inputs
  int64_t count = 0;  // of inputs, of each slice
  int64_t slices = 1;
  bool first = false;               // totals start with its first slice
  bool begins = true, ends = true;  // a slice; both unless it is a part of one
  const float* weights = nullptr;   // of input `begin`, first panel
  int64_t size = 0;                 // from panel to panel
  int64_t jump = 0;                 // from the end of a slice to the next
  // The following stored data: its address, and bytes from panel to panel and from
  // input to input.
  const char* next = nullptr;
  int64_t next_size = 0;
  int64_t next_step = 0;
};

// Prefetches of a tile: bytes from `at` on, `step` for each of its own inputs. The
// tiles of a stretch share the prefetches of the following data, so that it is in cache
// in time and memory never gets many requests at once. With few rows there is one tile
// for several panels: then memory bandwidth is the limit, and the hardware prefetcher
// suffices.
struct Ahead {
  const char* at = nullptr;
  int64_t step = 0;

  Ahead(const Stretch& stretch, int64_t panels, int64_t tile, int64_t tiles) {
    // Most tiles that share a panel; each prefetches some bytes for each of its inputs.
    constexpr int64_t kMost = 8;
    const int64_t panel = tile % panels, before = tile / panels;
    const int64_t together = std::min(kMost, (tiles - panel + panels - 1) / panels);
    const int64_t each = stretch.next_step / together;
    at = stretch.next + panel * stretch.next_size +
         before * stretch.count * stretch.slices * each;
    step = before < together ? each : 0;
  }
};

// Adds to totals [kRows][kPanels][16]; unfinished sums of a stretch are kept after
// them, at `pending`. A separate function, so that the sums and the addresses of all
// rows stay in registers.
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
  // Three rows share one moving address: there are not enough registers for one address
  // per row, which the compiler would use if it saw the relation.
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

// Adds a stretch to the totals of all rows, [rows][kPanels][16], in tiles of similar
// size: a small one at the end would leave arithmetic units idle. `pending` is as
// large.
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
// slices while they fit, else parts of one.
class Stretches {
 public:
  Stretches(const MatrixView& matrix, Part slices)
      : slice_(matrix.slice),
        first_(slices.begin * slice_),
        end_(std::min(slices.end * slice_, matrix.inputs)),
        begin_(first_) {}

  bool done() const { return begin_ == end_; }

  // The next stretch; false at the end.
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

// Sums of all rows with `kPanels` panels. The weights are float32, or are widened
// stretch by stretch into `wide` [kPanels][kDepth + 1][16].
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

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_TILES_INL_H
