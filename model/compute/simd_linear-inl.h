// SPDX-License-Identifier: MIT
// Linear, Parts and Fold of kernels.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_LINEAR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_LINEAR_INL_H
#undef MNEMON_SIMD_LINEAR_INL_H
#else
#define MNEMON_SIMD_LINEAR_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"
#include "model/compute/row_buffer.h"
#include "model/compute/simd_int8_linear-inl.h"
#include "model/compute/simd_row-inl.h"
#include "model/compute/simd_tiles-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

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
  for (int64_t i = 0; norm.centred && i < width; i += 16) {
    sum = Add(sum, LoadSome16(in + i, width - i));
  }
  const float count = static_cast<float>(width);
  const V16 mean = Set16(norm.centred ? Sum16(sum) / count : 0.0f);
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
  const V16 scale = Set16(1.0f / std::sqrt(Sum16(squares) / count + norm.eps));
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
    // The same for all workers.
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

// Every worker norms and quantises all rows itself, which is cheaper than waiting for
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
        sum = part(0);
        for (int64_t p = 1; p < call.parts; ++p) {
          const float scale = call.part_scales.row(r)[p - 1];
          sum = Fma(part(p), Mul(Set16(scale), scales), sum);
        }
      }
      if (call.bias != nullptr) sum = Add(sum, LoadSome16(call.bias + i, left));
      if (call.scale != 1.0f) sum = Mul(Set16(call.scale), sum);
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
