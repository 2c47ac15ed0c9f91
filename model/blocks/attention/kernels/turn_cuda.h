// SPDX-License-Identifier: MIT
// Turn of calls.h on a device. C++17.
#pragma once

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/cuda/numbers.h"
#include "model/compute/cuda/row_operations.h"

namespace mnemon::device {

// Turns one head of a row; called by a warp.
MNEMON_DEVICE void TurnHead(const TurnCall& call, int64_t position, float* head,
                            const NormView& norm) {
  if (norm.gain != nullptr) {
    NormRow(head, static_cast<int>(call.width), norm);
    WarpBarrier();
  }
  if (call.angles.coarse == nullptr) return;
  const AngleView& view = call.angles;
  const int64_t half = view.turns / 2;
  const double* const a = view.coarse + position / view.stride * view.turns;
  const double* const b = view.fine + position % view.stride * view.turns;
  for (int64_t i = Lane(); i < half; i += kWarp) {
    const double sine = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
    const double cosine = a[2 * i + 1] * b[2 * i + 1] - a[2 * i] * b[2 * i];
    const auto s = static_cast<float>(sine * call.magnitude);
    const auto c = static_cast<float>(cosine * call.magnitude);
    const float x = head[i], y = head[half + i];
    head[i] = Flushed(Fma(x, c, 0.0f - y * s));
    head[half + i] = Flushed(Fma(y, c, x * s));
  }
}

MNEMON_DEVICE void Turn(const TurnCall& call, Share share) {
  const int64_t heads = call.group_heads();
  const int64_t units = call.rows * call.groups * heads, end = share.end(units);
  for (int64_t unit = share.begin(units) + WarpIndex(); unit < end;
       unit += WarpCount()) {
    const int64_t r = unit / (call.groups * heads);
    const int64_t group = unit / heads % call.groups, i = unit % heads;
    TurnHead(call, call.positions[r], call.heads.row(r) + call.HeadAt(group, i),
             i < call.queries ? call.query_norm : call.key_norm);
  }
}

}  // namespace mnemon::device
