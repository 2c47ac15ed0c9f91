// SPDX-License-Identifier: MIT
// Sixteen floats as one value, for any vector width of the machine, and functions on
// them that give the same bits on every target (docs/numerics.md). Included once per
// target by Highway.
#if defined(MNEMON_VECTOR16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_VECTOR16_INL_H
#undef MNEMON_VECTOR16_INL_H
#else
#define MNEMON_VECTOR16_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "model/compute/activation.h"
#include "model/compute/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using mnemon::Flush;

using F = hn::CappedTag<float, 16>;
using Vec = hn::Vec<F>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(F()));
constexpr int kParts = 16 / kLanes;

struct V16 {
  Vec v[kParts];
};

HWY_INLINE V16 Zero16() {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Zero(F());
  return out;
}
HWY_INLINE V16 Set16(float x) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Set(F(), x);
  return out;
}
HWY_INLINE V16 Load16(const float* from) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::LoadU(F(), from + i * kLanes);
  return out;
}
// The first `count` of 16; the rest is zero, and not read.
HWY_INLINE V16 LoadSome16(const float* from, int64_t count) {
  if (count >= 16) return Load16(from);
  HWY_ALIGN float some[16] = {};
  std::memcpy(some, from, static_cast<size_t>(count) * sizeof(float));
  return Load16(some);
}
// The lower halves, or the upper halves, of 16 pairs of bfloat16.
HWY_INLINE V16 LoadLowerBf16(const uint32_t* from) {
  const hn::RebindToUnsigned<F> wide;
  V16 out;
  for (int i = 0; i < kParts; ++i) {
    const auto pairs = hn::LoadU(wide, from + i * kLanes);
    out.v[i] = hn::BitCast(F(), hn::ShiftLeft<16>(pairs));
  }
  return out;
}
HWY_INLINE V16 LoadUpperBf16(const uint32_t* from) {
  const hn::RebindToUnsigned<F> wide;
  const auto upper = hn::Set(wide, 0xFFFF0000u);
  V16 out;
  for (int i = 0; i < kParts; ++i) {
    const auto pairs = hn::LoadU(wide, from + i * kLanes);
    out.v[i] = hn::BitCast(F(), hn::And(pairs, upper));
  }
  return out;
}
// Prefetches `count` floats that another core has written, all at once: otherwise the
// cost of each cache line would be paid in turn.
HWY_INLINE void Fetch(const float* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + i);
}
HWY_INLINE void Store16(const V16& x, float* to) {
  for (int i = 0; i < kParts; ++i) hn::StoreU(x.v[i], F(), to + i * kLanes);
}
HWY_INLINE void StoreSome16(const V16& x, float* to, int64_t count) {
  if (count >= 16) return Store16(x, to);
  HWY_ALIGN float all[16];
  Store16(x, all);
  std::memcpy(to, all, static_cast<size_t>(count) * sizeof(float));
}

HWY_INLINE V16 Add(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Add(a.v[i], b.v[i]);
  return out;
}
HWY_INLINE V16 Sub(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Sub(a.v[i], b.v[i]);
  return out;
}
HWY_INLINE V16 Mul(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Mul(a.v[i], b.v[i]);
  return out;
}
HWY_INLINE V16 Div(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Div(a.v[i], b.v[i]);
  return out;
}
// a > b ? a : b, so b if either is NaN.
HWY_INLINE Vec MaxLanes(Vec a, Vec b) {
#if HWY_ARCH_X86
  return hn::Max(a, b);  // the instruction's own rule
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}
HWY_INLINE V16 Max(const V16& a, const V16& b) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = MaxLanes(a.v[i], b.v[i]);
  return out;
}

#if HWY_NATIVE_FMA
// a b + c, rounded once.
HWY_INLINE V16 Fma(const V16& a, const V16& b, const V16& c) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::MulAdd(a.v[i], b.v[i], c.v[i]);
  return out;
}
// c - a b, rounded once.
HWY_INLINE V16 Fnma(const V16& a, const V16& b, const V16& c) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::NegMulAdd(a.v[i], b.v[i], c.v[i]);
  return out;
}
#else
// The product is exact in double. A sum rounded to odd in double, of whose 53 bits a
// float keeps 24, rounds to the same float as the exact sum (Boldo and Melquiond,
// "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using Rounding to
// Odd", IEEE Transactions on Computers 57(4), 2008).
HWY_INLINE float FmaByDouble(float a, float b, float c) {
  const double product = double{a} * b, term = c;
  const double sum = product + term;
  // The error of the sum (Knuth's TwoSum); NaN if it is not finite.
  const double added = sum - product;
  const double lost = (product - (sum - added)) + (term - added);
  int64_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  // Of the two neighbours of an inexact sum one is odd.
  if ((bits & 1) == 0 && (lost < 0 || lost > 0))
    bits += (lost > 0) == (sum > 0) ? 1 : -1;
  double odd;
  std::memcpy(&odd, &bits, sizeof(odd));
  return static_cast<float>(odd);
}
// A loop that compilers vectorise if they do not unroll it first.
#define MNEMON_EACH(i, count) _Pragma("GCC unroll 1") for (int i = 0; i < (count); ++i)

struct Product {
  float a, b, c;  // a b + c
};
// out[i] = product(i), rounded to double and then to float. Returns true if some may
// differ from the exact result rounded once: only if the sum in double is halfway
// between two floats, its bits after the 24 of a float being 1 0...0. (For speed, only
// the upper halves of doubles are examined; few have these bits.) REQUIRES: no sum is
// below 2^-126, where floats have fewer bits.
template <class ProductAt>
HWY_INLINE bool FmaTwice(const ProductAt& product, float* out) {
  HWY_ALIGN double sum[16];
  MNEMON_EACH(i, 16) {
    const Product of = product(i);
    sum[i] = double{of.a} * of.b + of.c;
  }
  HWY_ALIGN uint32_t halves[32];
  std::memcpy(halves, sum, sizeof(halves));
  uint32_t middle = 0;
  MNEMON_EACH(i, 32) middle |= (halves[i] & 0x1FFFFFFF) == 0x10000000 ? 1u : 0u;
  MNEMON_EACH(i, 16) out[i] = static_cast<float>(sum[i]);
  return middle != 0;
}
// out[i] = product(i), rounded once.
template <class ProductAt>
HWY_INLINE void FmaEach(const ProductAt& product, float* out) {
  const bool middle = FmaTwice(product, out);
  // Or if the sum is subnormal.
  uint32_t small = 0;
  MNEMON_EACH(i, 16) small |= out[i] >= -0x1p-126f && out[i] <= 0x1p-126f ? 1u : 0u;
  if (HWY_UNLIKELY(middle || small != 0)) {
    MNEMON_EACH(i, 16) {
      const Product of = product(i);
      out[i] = FmaByDouble(of.a, of.b, of.c);
    }
  }
}
// a b + c, rounded once.
HWY_INLINE V16 Fma(const V16& a, const V16& b, const V16& c) {
  HWY_ALIGN float x[16], y[16], z[16], out[16];
  Store16(a, x);
  Store16(b, y);
  Store16(c, z);
  FmaEach([&](int i) { return Product{x[i], y[i], z[i]}; }, out);
  return Load16(out);
}
// c - a b, rounded once.
HWY_INLINE V16 Fnma(const V16& a, const V16& b, const V16& c) {
  HWY_ALIGN float x[16], y[16], z[16], out[16];
  Store16(a, x);
  Store16(b, y);
  Store16(c, z);
  FmaEach([&](int i) { return Product{-x[i], y[i], z[i]}; }, out);
  return Load16(out);
}
#endif

// Replaces numbers below kSmallest in magnitude by +0; NaN stays.
HWY_INLINE Vec FlushLanes(Vec x) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(F(), kSmallest)), x);
}
HWY_INLINE V16 Flush(const V16& x) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = FlushLanes(x.v[i]);
  return out;
}
HWY_INLINE V16 Abs(const V16& a) {
  V16 out;
  for (int i = 0; i < kParts; ++i) out.v[i] = hn::Abs(a.v[i]);
  return out;
}
// `no` if s is negative, else `yes`.
HWY_INLINE V16 IfNegative(const V16& s, const V16& no, const V16& yes) {
  V16 out;
  for (int i = 0; i < kParts; ++i) {
    out.v[i] = hn::IfThenElse(hn::Lt(s.v[i], hn::Zero(F())), no.v[i], yes.v[i]);
  }
  return out;
}

// NaN if x is NaN or infinite, else +0.
HWY_INLINE V16 NotFinite(const V16& x) { return Sub(x, x); }

HWY_INLINE float First16(const V16& x) { return hn::GetLane(x.v[0]); }

// Adds lanes 8, 4, 2, 1 apart.
HWY_INLINE float Sum16(V16 x) {
  for (int apart = kParts / 2; apart > 0; apart /= 2) {
    for (int i = 0; i < apart; ++i) x.v[i] = hn::Add(x.v[i], x.v[i + apart]);
  }
  HWY_ALIGN float lane[kLanes];
  hn::Store(x.v[0], F(), lane);
  for (int apart = kLanes / 2; apart > 0; apart /= 2) {
    for (int i = 0; i < apart; ++i) lane[i] += lane[i + apart];
  }
  return lane[0];
}
// Sum of a[i] b[i].
HWY_INLINE float Dot(const float* a, const float* b, int64_t width) {
  V16 sum = Zero16();
  for (int64_t i = 0; i < width; i += 16) {
    sum = Fma(LoadSome16(a + i, width - i), LoadSome16(b + i, width - i), sum);
  }
  return Sum16(sum);
}

HWY_INLINE float Max16(const V16& x) {
  HWY_ALIGN float lane[16];
  Store16(x, lane);
  float most = lane[0];
  for (int i = 1; i < 16; ++i) most = lane[i] > most ? lane[i] : most;
  return most;
}

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kLn2Upper = 0.693145751953125f, kLn2Lower = 1.42860677e-6f;
constexpr float kExpTerms[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24,
                               1.0f / 6,    0.5f,       1.0f,       1.0f};
// e^x for x <= 88, zero if that is below kSmallest, NaN for NaN: x = n ln 2 + r, a
// polynomial in r (Taylor to r^7, below 1 ulp for |r| <= ln 2 / 2), times 2^n.
#if HWY_NATIVE_FMA
HWY_INLINE V16 Exp16(const V16& x) {
  const hn::RebindToSigned<F> di;
  V16 out;
  for (int i = 0; i < kParts; ++i) {
    const Vec clamped = MaxLanes(x.v[i], hn::Set(F(), -40.0f));
    const Vec n = hn::Round(hn::Mul(clamped, hn::Set(F(), kLog2E)));
    Vec r = hn::NegMulAdd(n, hn::Set(F(), kLn2Upper), clamped);
    r = hn::NegMulAdd(n, hn::Set(F(), kLn2Lower), r);
    Vec p = hn::Set(F(), kExpTerms[0]);
    for (int k = 1; k < 8; ++k) p = hn::MulAdd(p, r, hn::Set(F(), kExpTerms[k]));
    const auto exponent =
        hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
    const Vec scaled = hn::Mul(p, hn::BitCast(F(), exponent));
    out.v[i] = hn::IfThenElse(hn::Eq(x.v[i], x.v[i]), FlushLanes(scaled), x.v[i]);
  }
  return out;
}
#else
HWY_INLINE V16 Exp16(const V16& x16) {
  constexpr float kWhole = 0x1.8p23f;  // floats from 2^23 on have no fraction
  HWY_ALIGN float x[16], n[16], r[16], p[16];
  Store16(x16, x);
  // Exact in double except for the roundings to float.
  MNEMON_EACH(i, 16) {
    r[i] = x[i] > -40.0f ? x[i] : -40.0f;
    n[i] = (r[i] * kLog2E + kWhole) - kWhole;
  }
  for (const float part : {kLn2Upper, kLn2Lower}) {
    MNEMON_EACH(i, 16) r[i] = static_cast<float>(r[i] - double{n[i]} * part);
  }
  bool doubtful = false;
  MNEMON_EACH(i, 16) p[i] = kExpTerms[0];
  for (int k = 1; k < 8; ++k)
    doubtful |= FmaTwice([&](int i) { return Product{p[i], r[i], kExpTerms[k]}; }, p);
  if (HWY_UNLIKELY(doubtful)) {
    MNEMON_EACH(i, 16) {
      p[i] = kExpTerms[0];
      for (int k = 1; k < 8; ++k) p[i] = FmaByDouble(p[i], r[i], kExpTerms[k]);
    }
  }
  MNEMON_EACH(i, 16) {
    const int32_t exponent = (static_cast<int32_t>(n[i]) + 127) << 23;
    float power;
    std::memcpy(&power, &exponent, sizeof(power));
    x[i] = x[i] == x[i] ? Flush(p[i] * power) : x[i];
  }
  return Load16(x);
}
#undef MNEMON_EACH
#endif

HWY_INLINE V16 Sigmoid16(const V16& x) {
  const V16 e = Exp16(Sub(Zero16(), Abs(x)));  // e^-|x|
  const V16 d = Add(Set16(1.0f), e);
  return IfNegative(x, Div(e, d), Div(Set16(1.0f), d));
}

// x Phi(x) with the error function of Abramowitz and Stegun, 7.1.26 (error 1.5e-7).
HWY_INLINE V16 Gelu16(const V16& x) {
  const V16 z = Mul(Abs(x), Set16(0.70710678118654752f));
  const V16 t = Div(Set16(1.0f), Fma(Set16(0.3275911f), z, Set16(1.0f)));
  V16 p = Fma(Set16(1.061405429f), t, Set16(-1.453152027f));
  p = Fma(p, t, Set16(1.421413741f));
  p = Fma(p, t, Set16(-0.284496736f));
  p = Fma(p, t, Set16(0.254829592f));
  const V16 tail = Mul(Mul(p, t), Exp16(Sub(Zero16(), Mul(z, z))));  // 1 - erf z
  const V16 half = Mul(Set16(0.5f), x);
  return IfNegative(x, Mul(half, tail), Mul(half, Sub(Set16(2.0f), tail)));
}

HWY_INLINE V16 Silu16(const V16& x) { return Mul(x, Sigmoid16(x)); }

HWY_INLINE V16 GeluTanh16(const V16& x) {
  constexpr auto kLinear = static_cast<float>(kGeluLinear);
  constexpr auto kCubic = static_cast<float>(kGeluCubic);
  return Mul(x, Sigmoid16(Mul(x, Fma(Mul(x, x), Set16(kCubic), Set16(kLinear)))));
}

HWY_INLINE V16 Tanh16(const V16& x) {
  const V16 size = Abs(x), square = Mul(x, x);
  V16 p = Set16(kTanhTerms[0]);
  for (int k = 1; k < 5; ++k) p = Fma(p, square, Set16(kTanhTerms[k]));
  const V16 near = Fma(Mul(x, square), p, x);
  const V16 e = Exp16(Mul(Set16(-2.0f), size));
  const V16 far = Div(Sub(Set16(1.0f), e), Add(Set16(1.0f), e));
  return IfNegative(Sub(size, Set16(kTanhNear)), near,
                    IfNegative(x, Sub(Zero16(), far), far));
}

HWY_INLINE V16 Activated16(const V16& x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return IfNegative(x, Zero16(), x);  // NaN stays NaN
    case Act::kGelu:
      return Gelu16(x);
    case Act::kSigmoid:
      return Sigmoid16(x);
    case Act::kGeluTanh:
      return GeluTanh16(x);
    case Act::kSilu:
      return Silu16(x);
    case Act::kTanh:
      return Tanh16(x);
  }
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_VECTOR16_INL_H
