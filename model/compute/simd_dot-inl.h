// SPDX-License-Identifier: MIT
// Dot products of int8 in int32 for 16 outputs at once: each output adds the four
// products of a quad, which is four inputs. Weights are bytes w + 128. Included once
// per target by Highway.
#if defined(MNEMON_SIMD_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_DOT_INL_H
#undef MNEMON_SIMD_DOT_INL_H
#else
#define MNEMON_SIMD_DOT_INL_H
#endif

#include <cstring>

#include "model/compute/simd_int8-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

using I = hn::RebindToSigned<F>;
using Ints = hn::Vec<I>;

HWY_INLINE int32_t LoadInt(const char* from) {
  int32_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Weights of a quad without the offset.
HWY_INLINE Ints Signed(const char* from) {
  return hn::Xor(hn::LoadU(I(), reinterpret_cast<const int32_t*>(from)),
                 hn::Set(I(), static_cast<int32_t>(0x80808080u)));
}

// An implementation. Add adds the products of a quad to `sum`, which Start initialises
// from the sum of all inputs; Store writes 16 inputs. Weights are stored with an offset
// of 128.
#if MNEMON_INT8_VNNI

HWY_INLINE void StoreBytes(const Ints* x, char* to) {
  const hn::Rebind<int8_t, I> bytes;
  for (int i = 0; i < kParts; ++i) {
    hn::StoreU(hn::DemoteTo(bytes, x[i]), bytes,
               reinterpret_cast<int8_t*>(to + i * kLanes));
  }
}

// Unsigned by signed: the result is 128 times the inputs too large, so sums start that
// much lower.
struct Vnni {
  static constexpr const char* kName = "vnni";
  static constexpr int kInputValues = 1;  // vectors that hold a quad of inputs
  using Weights = Ints;
  using Inputs = Ints;

  static HWY_INLINE Weights LoadWeights(const char* from) {
    return hn::LoadU(I(), reinterpret_cast<const int32_t*>(from));
  }
  static HWY_INLINE Inputs LoadInputs(const char* from) {
    return hn::Set(I(), LoadInt(from));
  }
  // By name: the intrinsics need attributes beyond those of the target.
  static HWY_INLINE void Add(const Weights& w, const Inputs& x, Ints& sum) {
#if HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(w.raw), "x"(x.raw));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
#endif
  }
  static HWY_INLINE void Store(const Ints* x, char* to) { StoreBytes(x, to); }
  static int32_t Start(int32_t sum) { return -128 * sum; }
};

// Two products at once in 16 bits: the magnitude of an input, unsigned, by the weight
// with the sign of the input. Both are within +-127, so that nothing saturates.
struct Pairs {
  static constexpr const char* kName = "pairs";
  static constexpr int kInputValues = 2;
  using Weights = Ints;
  struct Inputs {
    Ints size, x;
  };

  static HWY_INLINE Weights LoadWeights(const char* from) { return Signed(from); }
  static HWY_INLINE Inputs LoadInputs(const char* from) {
    const hn::Repartition<int8_t, I> bytes;
    const Ints x = hn::Set(I(), LoadInt(from));
    return {hn::BitCast(I(), hn::Abs(hn::BitCast(bytes, x))), x};
  }
  static HWY_INLINE void Add(const Weights& w, const Inputs& x, Ints& sum) {
#if HWY_TARGET == HWY_AVX2
    const __m256i pairs =
        _mm256_maddubs_epi16(x.size.raw, _mm256_sign_epi8(w.raw, x.x.raw));
    sum = hn::Add(sum, Ints{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
#else
    const __m512i with_sign = _mm512_mask_sub_epi8(w.raw, _mm512_movepi8_mask(x.x.raw),
                                                   _mm512_setzero_si512(), w.raw);
    const __m512i pairs = _mm512_maddubs_epi16(x.size.raw, with_sign);
    sum = hn::Add(sum, Ints{_mm512_madd_epi16(pairs, _mm512_set1_epi16(1))});
#endif
  }
  static HWY_INLINE void Store(const Ints* x, char* to) { StoreBytes(x, to); }
  static int32_t Start(int32_t /*sum*/) { return 0; }
};

using AnyInt8 = Pairs;

#else

// One product at a time, in 32 bits.
struct Single {
  static constexpr const char* kName = "single";
  static constexpr int kInputValues = 1;
  using Weights = Ints;
  using Inputs = Ints;

  static HWY_INLINE Weights LoadWeights(const char* from) { return Signed(from); }
  static HWY_INLINE Inputs LoadInputs(const char* from) {
    return hn::Set(I(), LoadInt(from));
  }
  static HWY_INLINE void Add(const Weights& w, const Inputs& x, Ints& sum) {
    sum = hn::Add(sum, hn::Mul(Byte<24>(w), Byte<24>(x)));
    sum = hn::Add(sum, hn::Mul(Byte<16>(w), Byte<16>(x)));
    sum = hn::Add(sum, hn::Mul(Byte<8>(w), Byte<8>(x)));
    sum = hn::Add(sum, hn::Mul(Byte<0>(w), Byte<0>(x)));
  }
  static HWY_INLINE void Store(const Ints* x, char* to) {
    HWY_ALIGN int32_t lane[16];
    for (int i = 0; i < kParts; ++i) hn::Store(x[i], I(), lane + i * kLanes);
    for (int i = 0; i < 16; ++i) to[i] = static_cast<char>(lane[i]);
  }
  static int32_t Start(int32_t /*sum*/) { return 0; }

 private:
  // The byte that a shift by `kShift` moves to the top.
  template <int kShift>
  static HWY_INLINE Ints Byte(Ints quad) {
    return hn::ShiftRight<24>(hn::ShiftLeft<kShift>(quad));
  }
};

using AnyInt8 = Single;

#endif

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_DOT_INL_H
