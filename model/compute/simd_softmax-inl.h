// SPDX-License-Identifier: MIT
// Norm and Softmax of kernels.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_SOFTMAX_INL_H
#undef MNEMON_SIMD_SOFTMAX_INL_H
#else
#define MNEMON_SIMD_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "model/compute/kernels.h"
#include "model/compute/linear_scratch.h"
#include "model/compute/simd_linear-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

void Norm(const NormCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    const bool added = call.residual.data != nullptr;
    float* const normed = added ? call.room.row(r) : call.out.row(r);
    NormRow(call.in.row(r), call.width, call.norm, normed);
    if (call.act == Act::kNone && !added) continue;
    for (int64_t i = 0; i < call.width; i += 16) {
      const int64_t left = call.width - i;
      V16 x = Activated16(LoadSome16(normed + i, left), call.act);
      if (added) {
        if (call.scale != 1.0f) x = Mul(Set16(call.scale), x);
        x = Add(LoadSome16(call.residual.row(r) + i, left), x);
      }
      StoreSome16(Flush(x), call.out.row(r) + i, left);
    }
  }
}

// Keys j .. j+15 of row r as they enter the softmax; -infinity if a key takes no part.
HWY_INLINE V16 BiasedScores(const SoftmaxCall& call, int64_t r, int64_t j) {
  const int64_t query = call.query + r;
  const int64_t seen = call.causal ? std::min(call.keys, query + 1) : call.keys;
  const int64_t left = call.keys - j;
  V16 score = Mul(LoadSome16(call.scores.row(r) + j, left), Set16(call.scale));
  if (call.slope != 0) {
    V16 distance;
    for (int p = 0; p < kParts; ++p) {
      distance.v[p] = hn::Sub(hn::Set(F(), static_cast<float>(query - j)),
                              hn::Iota(F(), static_cast<float>(p * kLanes)));
    }
    score = Fnma(Set16(call.slope), Abs(distance), score);
  }
  if (j + 16 <= seen && call.mask == nullptr) return score;
  HWY_ALIGN float lane[16];
  Store16(score, lane);
  const uint8_t* mask = call.mask == nullptr ? nullptr : call.mask + r * call.keys;
  for (int64_t i = 0; i < 16; ++i) {
    if (j + i >= seen || (mask != nullptr && mask[j + i] == 0)) lane[i] = -HUGE_VALF;
  }
  return Load16(lane);
}

void Softmax(const SoftmaxCall& call, Share share) {
  for (int64_t r = share.begin(call.rows); r < share.end(call.rows); ++r) {
    float* const row = call.scores.row(r);
    V16 peak = Set16(-HUGE_VALF);
    for (int64_t j = 0; j < call.keys; j += 16) {
      const V16 score = BiasedScores(call, r, j);
      peak = Max(peak, score);
      StoreSome16(score, row + j, call.keys - j);
    }
    const float most = Max16(peak);
    if (most == -HUGE_VALF) {
      std::fill_n(row, call.keys, 0.0f);
      continue;
    }
    const V16 top = Set16(most);
    V16 total = Zero16();
    for (int64_t j = 0; j < call.keys; j += 16) {
      const int64_t left = call.keys - j;
      const V16 weight = Exp16(Sub(LoadSome16(row + j, left), top));
      StoreSome16(weight, row + j, left);
      // The last block has zeros beyond the last key.
      total = Add(total, left < 16 ? LoadSome16(row + j, left) : weight);
    }
    const V16 sum = Set16(Sum16(total));
    for (int64_t j = 0; j < call.keys; j += 16) {
      const int64_t left = call.keys - j;
      StoreSome16(Flush(Div(LoadSome16(row + j, left), sum)), row + j, left);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_SOFTMAX_INL_H
