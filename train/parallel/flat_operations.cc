// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#include "train/parallel/flat_operations.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "train/parallel/flat_operations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

HWY_INLINE V16 Sqrt16(const V16& x) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Sqrt(x.v[i]);
  return out;
}

V16 TreeSum(std::span<float* const> shards, int64_t i, int64_t left) {
  const size_t count = shards.size(), half = (count + 1) / 2;
  if (count == 1) return LoadSome16(shards[0] + i, left);
  return Add(TreeSum(shards.first(half), i, left),
             TreeSum(shards.subspan(half), i, left));
}

double AddShardsHere(std::span<float* const> shards, int64_t begin, int64_t end) {
  V16 squares = Zero16();
  for (int64_t i = begin; i < end; i += 16) {
    const int64_t left = end - i;
    const V16 sum = TreeSum(shards, i, left);
    if (shards.size() > 1) StoreSome16(sum, shards[0] + i, left);
    squares = Fma(sum, sum, squares);
  }
  return Sum16(squares);
}

void ApplyAdamHere(const AdamPass& pass, int64_t begin, int64_t end) {
  const AdamFactors& f = pass.factors;
  const V16 keep = Set16(f.keep), decay = Set16(f.decay), b1 = Set16(f.b1),
            b2 = Set16(f.b2), a1 = Set16(f.a1), a2 = Set16(f.a2), rate = Set16(f.rate),
            root_scale = Set16(f.root_scale), eps = Set16(f.eps),
            scale = Set16(pass.scale);
  for (int64_t i = begin; i < end; i += 16) {
    const int64_t left = end - i;
    const V16 w = LoadSome16(pass.weights + i, left);
    const V16 g = Fma(decay, w, Mul(scale, LoadSome16(pass.gradients + i, left)));
    const V16 m = Fma(a1, g, Mul(b1, LoadSome16(pass.first + i, left)));
    const V16 v = Fma(Mul(a2, g), g, Mul(b2, LoadSome16(pass.second + i, left)));
    const V16 step = Div(Mul(rate, m), Fma(Sqrt16(v), root_scale, eps));
    StoreSome16(m, pass.first + i, left);
    StoreSome16(v, pass.second + i, left);
    StoreSome16(Sub(Mul(keep, w), step), pass.weights + i, left);
  }
}

void ApplySgdHere(const SgdPass& pass, int64_t begin, int64_t end) {
  const V16 rate = Set16(pass.rate), momentum = Set16(pass.momentum),
            decay = Set16(pass.decay), scale = Set16(pass.scale);
  for (int64_t i = begin; i < end; i += 16) {
    const int64_t left = end - i;
    const V16 w = LoadSome16(pass.weights + i, left);
    const V16 g = Fma(decay, w, Mul(scale, LoadSome16(pass.gradients + i, left)));
    const V16 b = Fma(momentum, LoadSome16(pass.buffer + i, left), g);
    StoreSome16(b, pass.buffer + i, left);
    StoreSome16(Sub(w, Mul(rate, b)), pass.weights + i, left);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(AddShardsHere);
HWY_EXPORT(ApplyAdamHere);
HWY_EXPORT(ApplySgdHere);

double AddShards(std::span<float* const> shards, int64_t begin, int64_t end) {
  return HWY_DYNAMIC_DISPATCH(AddShardsHere)(shards, begin, end);
}

void ApplyAdam(const AdamPass& pass, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ApplyAdamHere)(pass, begin, end);
}

void ApplySgd(const SgdPass& pass, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ApplySgdHere)(pass, begin, end);
}

}  // namespace mnemon
#endif
