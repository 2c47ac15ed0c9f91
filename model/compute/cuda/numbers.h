// SPDX-License-Identifier: MIT
// Functions of docs/numerics.md on a device, by one thread or by a warp. C++17.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "model/compute/activation.h"
#include "model/compute/cuda/device.h"
#include "model/compute/kernels.h"

namespace mnemon::device {

// Shared memory of a block, aligned to 16 bytes.
struct SharedFloats {
  float* data = nullptr;
  int64_t count = 0;
};

// Four floats, read and written at once if aligned to 16 bytes.
struct alignas(16) Four {
  float at[4];
};
MNEMON_DEVICE bool OnSixteenBytes(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0;
}

MNEMON_DEVICE float Flushed(float x) {
  return x > -kSmallest && x < kSmallest ? 0.0f : x;
}

// a > b ? a : b, so b if either is NaN.
MNEMON_DEVICE float Larger(float a, float b) { return a > b ? a : b; }

MNEMON_DEVICE float Infinity() { return HUGE_VALF; }

MNEMON_DEVICE float BitsAsFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// NaN if x is NaN or infinite, else +0.
MNEMON_DEVICE float NotFinite(float x) { return x - x; }

// e^x for x <= 88, zero if that is below kSmallest, NaN for NaN.
MNEMON_DEVICE float Exp(float x) {
  constexpr float kOnes = 0x1.8p23f;  // floats from 2^23 on have no fraction
  constexpr float kTerms[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24,
                              1.0f / 6,    0.5f,       1.0f,       1.0f};
  const float clamped = Larger(x, -40.0f);
  const float n = (clamped * 1.44269504088896341f + kOnes) - kOnes;
  float r = Fma(-n, 0.693145751953125f, clamped);
  r = Fma(-n, 1.42860677e-6f, r);
  float p = kTerms[0];
  for (int k = 1; k < 8; ++k) p = Fma(p, r, kTerms[k]);
  if (!(x == x)) return x;
  // Above 88 the result is unspecified, but the value must fit an int for the
  // conversion.
  const int whole = static_cast<int>(n < 128.0f ? n : 128.0f);
  return Flushed(p * BitsAsFloat(static_cast<uint32_t>(whole + 127) << 23));
}

MNEMON_DEVICE float Sigmoid(float x) {
  const float e = Exp(0.0f - fabsf(x));
  const float d = 1.0f + e;
  return x < 0.0f ? Divide(e, d) : Divide(1.0f, d);
}

// x Phi(x) with the error function of Abramowitz and Stegun, 7.1.26.
MNEMON_DEVICE float Gelu(float x) {
  const float z = fabsf(x) * 0.70710678118654752f;
  const float t = Divide(1.0f, Fma(0.3275911f, z, 1.0f));
  float p = Fma(1.061405429f, t, -1.453152027f);
  p = Fma(p, t, 1.421413741f);
  p = Fma(p, t, -0.284496736f);
  p = Fma(p, t, 0.254829592f);
  const float tail = (p * t) * Exp(0.0f - z * z);
  const float half = 0.5f * x;
  return x < 0.0f ? half * tail : half * (2.0f - tail);
}

MNEMON_DEVICE float GeluTanh(float x) {
  constexpr auto kLinear = static_cast<float>(kGeluLinear);
  constexpr auto kCubic = static_cast<float>(kGeluCubic);
  return x * Sigmoid(x * Fma(x * x, kCubic, kLinear));
}

MNEMON_DEVICE float Tanh(float x) {
  constexpr float kTerms[] = {kTanhTerms[0], kTanhTerms[1], kTanhTerms[2],
                              kTanhTerms[3], kTanhTerms[4]};
  const float size = fabsf(x), square = x * x;
  float p = kTerms[0];
  for (int k = 1; k < 5; ++k) p = Fma(p, square, kTerms[k]);
  if (size - kTanhNear < 0.0f) return Fma(x * square, p, x);
  const float e = Exp(-2.0f * size);
  const float far = Divide(1.0f - e, 1.0f + e);
  return x < 0.0f ? 0.0f - far : far;
}

MNEMON_DEVICE float Activated(float x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return x < 0.0f ? 0.0f : x;  // NaN stays NaN
    case Act::kGelu:
      return Gelu(x);
    case Act::kSigmoid:
      return Sigmoid(x);
    case Act::kGeluTanh:
      return GeluTanh(x);
    case Act::kSilu:
      return x * Sigmoid(x);
    case Act::kTanh:
      return Tanh(x);
  }
  return x;
}

// Sum by the tree (8, 4, 2, 1) over lanes 0 .. 15, and over lanes 16 .. 31: every lane
// gets the sum of its half. Called by all lanes of a warp.
MNEMON_DEVICE float HalfSum(float part) {
  for (int apart = 8; apart > 0; apart /= 2) {
    part += Shuffle(part, Lane() ^ apart);
  }
  return part;
}

// 16 interleaved partial sums, then the tree: next(i, sum) adds number i of `count`.
// Called by all lanes of a warp; each half computes the whole sum.
template <class Next>
MNEMON_DEVICE float HalfSumOf(int count, const Next& next) {
  float part = 0;
  for (int i = Lane() % 16; i < count; i += 16) part = next(i, part);
  return HalfSum(part);
}

// Calls use(i, read(i)) for i = begin .. count-1 upward; reads kAhead of them before
// the first is used, and of the rest a quarter of that.
template <int kAhead = 8, class Read, class Use>
MNEMON_DEVICE void ReadAhead(int count, const Read& read, const Use& use,
                             int begin = 0) {
  MNEMON_NO_UNROLL
  for (; begin + kAhead <= count; begin += kAhead) {
    decltype(read(begin)) some[kAhead];
    MNEMON_UNROLL
    for (int a = 0; a < kAhead; ++a) some[a] = read(begin + a);
    MNEMON_UNROLL
    for (int a = 0; a < kAhead; ++a) use(begin + a, some[a]);
  }
  if constexpr (kAhead > 1) ReadAhead<(kAhead + 3) / 4>(count, read, use, begin);
}

// Threads of a team with two for each of `width` columns, if the block has that many.
inline constexpr int ColumnTeam(int64_t width, int threads) {
  const int64_t warps = threads / kWarp;
  const int64_t least = (warps + kMostTeams - 1) / kMostTeams;
  const int64_t wanted = (2 * width + kWarp - 1) / kWarp;
  const int64_t some = wanted < least ? least : wanted;
  return static_cast<int>((some < warps ? some : warps) * kWarp);
}

}  // namespace mnemon::device
