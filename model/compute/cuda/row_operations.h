// SPDX-License-Identifier: MIT
// Embed, Mix and Norm of kernels.h on a device, and the norm of a row. All threads of a
// block call them; the block is the share's worker. A barrier of all blocks must come
// between a call and one that reads its output. C++17.
#pragma once

#include "model/compute/cuda/numbers.h"

namespace mnemon::device {

// Calls one(row, i) for each number of rows begin .. end-1 of `width` numbers.
template <class One>
MNEMON_DEVICE void EachNumber(int64_t begin, int64_t end, int64_t width,
                              const One& one) {
  const int64_t count = (end - begin) * width;
  for (int64_t n = ThreadIndex(); n < count; n += ThreadCount()) {
    one(begin + n / width, n % width);
  }
}

MNEMON_DEVICE float TableValue(const EmbedCall& call, int64_t id, int64_t i) {
  if (call.tied == nullptr) return call.table[id * call.width + i];
  const MatrixView& matrix = *call.tied;
  const char* const slice = static_cast<const char*>(matrix.panels) +
                            id / kPanel * matrix.panel_bytes +
                            i / matrix.slice * matrix.slice_bytes;
  const int64_t k = i % matrix.slice, output = id % kPanel;
  if (matrix.format != WeightFormat::kBf16) {
    return reinterpret_cast<const float*>(slice)[k * kPanel + output];
  }
  const uint32_t both =
      reinterpret_cast<const uint32_t*>(slice)[k / 2 * kPanel + output];
  return BitsAsFloat(k % 2 == 0 ? both << 16 : both & 0xFFFF0000u);
}

MNEMON_DEVICE float Sinusoid(const AngleView& view, int64_t position, int64_t i) {
  const int64_t pair = i / 2 * 2;
  const double* const a = view.coarse + position / view.stride * view.turns + pair;
  const double* const b = view.fine + position % view.stride * view.turns + pair;
  return static_cast<float>(i % 2 == 0 ? a[0] * b[1] + a[1] * b[0]
                                       : a[1] * b[1] - a[0] * b[0]);
}

MNEMON_DEVICE void Embed(const EmbedCall& call, Share share) {
  EachNumber(share.begin(call.rows), share.end(call.rows), call.width,
             [&](int64_t r, int64_t i) {
               float x = TableValue(call, call.ids[r], i) * call.scale;
               if (call.learned != nullptr) {
                 x += call.learned[call.positions[r] * call.width + i];
               } else if (call.sinusoid.coarse != nullptr) {
                 x += Sinusoid(call.sinusoid, call.positions[r], i);
               }
               call.out.row(r)[i] = Flushed(x);
             });
}

MNEMON_DEVICE void Mix(const MixCall& call, Share share) {
  EachNumber(share.begin(call.rows), share.end(call.rows), call.width,
             [&](int64_t r, int64_t i) {
               const float* in = call.in.row(r) + i;
               float sum = 0;
               for (int64_t l = 0; l < call.layers; ++l, in += call.layer_stride) {
                 sum = Fma(call.weights[l], *in, sum);
               }
               call.out.row(r)[i] = Flushed(sum);
             });
}

MNEMON_DEVICE bool SeesNothing(const KeyRange* key_ranges, int64_t row) {
  return key_ranges != nullptr && key_ranges[row].first > key_ranges[row].last;
}

// Norms one row in place; called by a warp.
MNEMON_DEVICE void NormRow(float* row, int width, const NormView& norm) {
  struct Number {
    float x, gain, bias;
  };
  const auto count = static_cast<float>(width);
  // Each half of the warp computes the whole sum, of numbers read some at a time.
  const auto half_sum = [&](const auto& next) {
    const int lane = Lane() % 16;
    float part = 0;
    ReadAhead((width - lane + 15) / 16, [&](int n) { return row[lane + 16 * n]; },
              [&](int /*n*/, float x) { part = next(x, part); });
    return HalfSum(part);
  };
  const float mean =
      norm.centred ? Divide(half_sum([](float x, float sum) { return sum + x; }), count)
                   : 0.0f;
  const float squares = half_sum([&](float x, float sum) {
    const float away = x - mean;
    return Fma(away, away, sum);
  });
  const float scale = Divide(1.0f, SquareRoot(Divide(squares, count) + norm.eps));
  WarpBarrier();
  ReadAhead((width - Lane() + kWarp - 1) / kWarp,
            [&](int n) {
              const int i = Lane() + n * kWarp;
              return Number{row[i], norm.gain[i], norm.bias[i]};
            },
            [&](int n, const Number& number) {
              row[Lane() + n * kWarp] =
                  Flushed(Fma((number.x - mean) * scale, number.gain, number.bias));
            });
}

// Norm without an activation.
MNEMON_DEVICE void Norm(const NormCall& call, Share share) {
  const auto width = static_cast<int>(call.width);
  for (int64_t r = share.begin(call.rows) + WarpIndex(); r < share.end(call.rows);
       r += WarpCount()) {
    const float* const in = call.in.row(r);
    const bool added = call.residual.data != nullptr;
    float* const normed = added ? call.room.row(r) : call.out.row(r);
    if (normed != in) {
      for (int i = Lane(); i < width; i += kWarp) normed[i] = in[i];
      WarpBarrier();
    }
    NormRow(normed, width, call.norm);
    if (!added) continue;
    // Each lane reads what it wrote.
    for (int i = Lane(); i < width; i += kWarp) {
      float x = normed[i];
      if (call.scale != 1.0f) x = call.scale * x;
      call.out.row(r)[i] = Flushed(call.residual.row(r)[i] + x);
    }
  }
}

}  // namespace mnemon::device
