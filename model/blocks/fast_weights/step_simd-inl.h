// SPDX-License-Identifier: MIT
// FastWeights of calls.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_FAST_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_FAST_WEIGHTS_INL_H
#undef MNEMON_SIMD_FAST_WEIGHTS_INL_H
#else
#define MNEMON_SIMD_FAST_WEIGHTS_INL_H
#endif

#include <algorithm>

#include "model/blocks/fast_weights/calls.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// The products of DPFP, and their sums over 16 columns.
V16 Products(const float* x, int64_t width, int64_t nu, float* halves, float* out) {
  const int64_t wide = 2 * width;
  // x' twice, so that every rotation is a slice.
  for (int64_t j = 0; j < width; j += 16) {
    const int64_t left = width - j;
    const V16 plus = LoadSome16(x + j, left), minus = Sub(Zero16(), plus);
    for (float* const half : {halves + j, halves + wide + j}) {
      StoreSome16(IfNegative(plus, Zero16(), plus), half, left);
      StoreSome16(IfNegative(minus, Zero16(), minus), half + width, left);
    }
  }
  V16 sum = Zero16();
  for (int64_t i = 1; i <= nu; ++i) {
    float* block = out + (i - 1) * wide;
    const float* rotated = halves + (wide - i % wide) % wide;
    for (int64_t j = 0; j < wide; j += 16) {
      const int64_t left = wide - j;
      const V16 p = Mul(LoadSome16(halves + j, left), LoadSome16(rotated + j, left));
      sum = Add(sum, p);
      StoreSome16(p, block + j, left);
    }
  }
  return sum;
}

// ELU + 1; returns sums likewise.
V16 EluPlusOne(const float* x, int64_t width, float* out) {
  V16 sum = Zero16();
  const V16 one = Set16(1.0f);
  for (int64_t j = 0; j < width; j += 16) {
    const int64_t left = width - j;
    const V16 value = LoadSome16(x + j, left);
    // exp is discarded for x that are not negative.
    const V16 p =
        IfNegative(value, Exp16(IfNegative(value, value, Zero16())), Add(value, one));
    StoreSome16(p, out + j, left);
    sum = Add(sum, LoadSome16(out + j, left));
  }
  return sum;
}

// phi(x) [N] of x [K].
void Features(const FeatureMap& map, const float* x, int64_t width, float* halves,
              float* out) {
  const V16 sum =
      map.elu ? EluPlusOne(x, width, out) : Products(x, width, map.nu, halves, out);
  const V16 scale = Set16(1.0f / (Sum16(sum) + 1e-6f));
  const int64_t count = map.features(width);
  for (int64_t j = 0; j < count; j += 16) {
    const int64_t left = count - j;
    StoreSome16(Flush(Mul(LoadSome16(out + j, left), scale)), out + j, left);
  }
}

// Updates `wide` x 16 columns of W^T and reads them, even and odd features apart. Adds
// NaN to `wrong` if a change is too large.
template <int kWide>
HWY_INLINE void UpdateColumns(float* state, int64_t width, int64_t features,
                              const float* key, const float* query, float key_query,
                              const float* value, const float* beta, int64_t columns,
                              float* out, V16& wrong) {
  V16 old_value[2][kWide], read[2][kWide];
  for (int w = 0; w < kWide; ++w) {
    old_value[0][w] = old_value[1][w] = read[0][w] = read[1][w] = Zero16();
  }
  for (int64_t n = 0; n < features; n += 2) {
    for (int odd = 0; odd < 2; ++odd) {
      const V16 k = Set16(key[n + odd]), q = Set16(query[n + odd]);
      for (int w = 0; w < kWide; ++w) {
        const V16 s = LoadSome16(state + (n + odd) * width + 16 * w, columns - 16 * w);
        old_value[odd][w] = Fma(k, s, old_value[odd][w]);
        read[odd][w] = Fma(q, s, read[odd][w]);
      }
    }
  }
  V16 change[kWide];
  for (int w = 0; w < kWide; ++w) {
    const int64_t left = columns - 16 * w;
    change[w] = LoadSome16(value + 16 * w, left);
    if (beta != nullptr) {
      change[w] =
          Mul(Set16(*beta), Sub(change[w], Add(old_value[0][w], old_value[1][w])));
    }
    wrong = Add(wrong, NotFinite(Mul(change[w], Set16(kMostChange))));
    // W_new phi(q) = W phi(q) + change (phi(k).phi(q))
    StoreSome16(Flush(Fma(change[w], Set16(key_query), Add(read[0][w], read[1][w]))),
                out + 16 * w, left);
  }
#pragma GCC unroll 4
  for (int64_t n = 0; n < features; ++n) {
    const V16 k = Set16(key[n]);
    for (int w = 0; w < kWide; ++w) {
      float* at = state + n * width + 16 * w;
      const int64_t left = columns - 16 * w;
      StoreSome16(Flush(Fma(change[w], k, LoadSome16(at, left))), at, left);
    }
  }
}

void FastWeightToken(const FastWeightCall& call, const FastWeightRun& run, int64_t row,
                     int64_t head, float* scratch, V16& wrong) {
  const int64_t width = call.width, features = call.map.features(width);
  const int64_t from = head * call.head_stride;
  float* key = scratch;
  float* query = key + features;
  float* halves = query + features;
  Features(call.map, call.key.row(row) + from, width, halves, key);
  Features(call.map, call.query.row(row) + from, width, halves, query);
  const float key_query = Dot(key, query, features);
  // A feature that is not finite is NaN, and so is its product with any other.
  wrong = Add(wrong, NotFinite(Set16(key_query)));
  const float* beta = call.beta.data == nullptr ? nullptr : call.beta.row(row) + head;
  const float* value = call.value.row(row) + from;
  float* out = call.out.row(row) + head * width;
  float* state = run.fixed + call.state_offset + head * features * width;
  int64_t i = 0;
  for (; i + 32 <= width; i += 32) {
    UpdateColumns<2>(state + i, width, features, key, query, key_query, value + i, beta,
                     32, out + i, wrong);
  }
  for (; i < width; i += 16) {
    UpdateColumns<1>(state + i, width, features, key, query, key_query, value + i, beta,
                     width - i, out + i, wrong);
  }
  if (call.normaliser_offset < 0) return;
  float* z = run.fixed + call.normaliser_offset + head * features;
  for (int64_t n = 0; n < features; n += 16) {
    const int64_t left = features - n;
    StoreSome16(Flush(Add(LoadSome16(z + n, left), LoadSome16(key + n, left))), z + n,
                left);
  }
  const V16 scale = Set16(1.0f / (Dot(z, query, features) + 1e-6f));
  for (i = 0; i < width; i += 16) {
    StoreSome16(Flush(Mul(LoadSome16(out + i, width - i), scale)), out + i, width - i);
  }
}

bool FastWeights(const FastWeightCall& call, Share share, float* scratch) {
  V16 wrong = Zero16();
  const int64_t units = call.runs * call.heads;
  for (int64_t unit = share.begin(units); unit < share.end(units); ++unit) {
    const FastWeightRun& run = call.run[unit / call.heads];
    for (int64_t row = run.first; row < run.first + run.count; ++row) {
      FastWeightToken(call, run, row, call.first_head + unit % call.heads, scratch,
                      wrong);
    }
  }
  return Sum16(wrong) == 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_FAST_WEIGHTS_INL_H
