// SPDX-License-Identifier: MIT
// Append of calls.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_APPEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_APPEND_INL_H
#undef MNEMON_SIMD_APPEND_INL_H
#else
#define MNEMON_SIMD_APPEND_INL_H
#endif

#include <algorithm>

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

bool Append(const AppendCall& call, Share share) {
  V16 wrong = Zero16();
  const int64_t units = call.rows * call.heads;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const int64_t r = unit / call.heads, h = unit % call.heads;
    const int64_t at = h * call.width;
    const Place& place = call.places[r];
    const float* const key = call.key.row(r) + h * call.head_stride;
    const float* const value = call.value.row(r) + h * call.head_stride;
    for (int64_t i = 0; i < call.width; i += 16) {
      const int64_t left = call.width - i;
      wrong = Add(wrong, NotFinite(LoadSome16(key + i, left)));
      wrong = Add(wrong, NotFinite(LoadSome16(value + i, left)));
    }
    float* columns = place.block + call.key_offset + at * kBlockPositions + place.slot;
    for (int64_t i = 0; i < call.width; ++i) columns[i * kBlockPositions] = key[i];
    std::copy_n(value, call.width,
                place.block + call.value_offset + at * kBlockPositions +
                    place.slot * call.width);
    if (call.fold_offset >= 0) {
      const float fold = Flush(Dot(key, call.query_bias + at, call.width));
      wrong = Add(wrong, NotFinite(Set16(fold)));
      place.block[call.fold_offset + h * kBlockPositions + place.slot] = fold;
    }
  }
  return Sum16(wrong) == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif
