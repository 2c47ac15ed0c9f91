// SPDX-License-Identifier: MIT
// Append of calls.h on a device. C++17.
#pragma once

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/cuda/numbers.h"

namespace mnemon::device {

// Appends one head of a row; called by a warp. Sets a bit of *wrong if not all that it
// wrote is finite.
MNEMON_DEVICE void AppendHead(const AppendCall& call, int64_t r, int64_t h,
                              uint32_t* wrong) {
  const int64_t at = h * call.width;
  const Place place = call.places[r];
  const float* const key = call.key.row(r) + h * call.head_stride;
  const float* const value = call.value.row(r) + h * call.head_stride;
  float* const keys = place.block + call.key_offset + at * kBlockPositions + place.slot;
  float* const values =
      place.block + call.value_offset + at * kBlockPositions + place.slot * call.width;
  float doubt = 0;  // NaN if a number is not finite
  for (int64_t i = Lane(); i < call.width; i += kWarp) {
    doubt += NotFinite(key[i]) + NotFinite(value[i]);
    keys[i * kBlockPositions] = key[i];
    values[i] = value[i];
  }
  if (call.fold_offset >= 0) {
    const float* const bias = call.query_bias + at;
    const float fold =
        Flushed(HalfSumOf(static_cast<int>(call.width),
                          [&](int i, float sum) { return Fma(key[i], bias[i], sum); }));
    doubt += NotFinite(fold);
    if (Lane() == 0)
      place.block[call.fold_offset + h * kBlockPositions + place.slot] = fold;
  }
  if (!(doubt == 0.0f)) AtomicOr(wrong, 1);
}

MNEMON_DEVICE void Append(const AppendCall& call, Share share, uint32_t* wrong) {
  const int64_t units = call.rows * call.heads, end = share.end(units);
  for (int64_t unit = share.begin(units) + WarpIndex(); unit < end;
       unit += WarpCount()) {
    AppendHead(call, unit / call.heads, unit % call.heads, wrong);
  }
}

}  // namespace mnemon::device
