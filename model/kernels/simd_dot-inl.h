// SPDX-License-Identifier: MIT
// Sums of products of int8 in int32, for 16 outputs side by side: from a quad, which is
// four inputs, each output adds its four products. Weights are bytes w + 128. Included
// once per target by Highway.
#if defined(MNEMON_SIMD_DOT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_DOT_INL_H
#undef MNEMON_SIMD_DOT_INL_H
#else
#define MNEMON_SIMD_DOT_INL_H
#endif

#include <cstring>

#include "model/kernels/simd_int8-inl.h"
#include "model/kernels/vector16-inl.h"

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

// One of the ways: Add adds the products of a quad to `sum`, which begins at what Start
// makes of the sum of all inputs; Store writes 16 inputs in the order in which
// LoadInputs takes quads of them.
#if MNEMON_INT8_VNNI

// Unsigned by signed: 128 x too much, for which sums start below zero.
struct Vnni {
  static constexpr int64_t kInputBytes = 1;
  using Weights = Ints;
  using Inputs = Ints;

  static HWY_INLINE Weights LoadWeights(const char* from) {
    return hn::LoadU(I(), reinterpret_cast<const int32_t*>(from));
  }
  static HWY_INLINE Inputs LoadInputs(const char* from) {
    return hn::Set(I(), LoadInt(from));
  }
  // By name: as intrinsics these need attributes beyond those of the target.
  static HWY_INLINE void Add(const Weights& w, const Inputs& x, Ints& sum) {
#if HWY_TARGET == HWY_AVX2
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(w.raw), "x"(x.raw));
#else
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(x.raw));
#endif
  }
  static HWY_INLINE void Store(const Ints* x, char* to) {
    const hn::Rebind<int8_t, I> bytes;
    for (int i = 0; i < kParts; ++i) {
      hn::StoreU(hn::DemoteTo(bytes, x[i]), bytes,
                 reinterpret_cast<int8_t*>(to + i * kLanes));
    }
  }
  static int32_t Start(int32_t sum) { return -128 * sum; }
};

#endif

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR

// In 16 bits nothing saturates. Inputs 0 and 2 of a quad lie side by side, then 1 and
// 3, as a mask and a shift leave the weights. They stay 128 too large, as in Vnni.
struct Widened {
  using D16 = hn::Repartition<int16_t, I>;
  static constexpr int64_t kInputBytes = 2;
  struct Weights {
    hn::Vec<D16> even, odd;
  };
  using Inputs = Weights;

  static HWY_INLINE Weights LoadWeights(const char* from) {
    const hn::RebindToUnsigned<D16> d;
    const auto both =
        hn::BitCast(d, hn::LoadU(I(), reinterpret_cast<const int32_t*>(from)));
    return {hn::BitCast(D16(), hn::And(both, hn::Set(d, 0x00FF))),
            hn::BitCast(D16(), hn::ShiftRight<8>(both))};
  }
  static HWY_INLINE Inputs LoadInputs(const char* from) {
    return {hn::BitCast(D16(), hn::Set(I(), LoadInt(from))),
            hn::BitCast(D16(), hn::Set(I(), LoadInt(from + 4)))};
  }
  static HWY_INLINE void Add(const Weights& w, const Inputs& x, Ints& sum) {
    Ints none = hn::Zero(I());
    sum = hn::Add(sum, hn::ReorderWidenMulAccumulate(
                           I(), w.odd, x.odd,
                           hn::ReorderWidenMulAccumulate(I(), w.even, x.even,
                                                         hn::Zero(I()), none),
                           none));
  }
  static HWY_INLINE void Store(const Ints* x, char* to) {
    const hn::Repartition<uint8_t, I> bytes;
    const hn::Rebind<int16_t, I> words;
    HWY_ALIGN static constexpr uint8_t kOrder[16] = {0, 1, 2, 3, 8,  9,  10, 11,
                                                     4, 5, 6, 7, 12, 13, 14, 15};
    const auto order = hn::LoadDup128(bytes, kOrder);
    for (int i = 0; i < kParts; ++i) {
      const Ints ordered =
          hn::BitCast(I(), hn::TableLookupBytes(hn::BitCast(bytes, x[i]), order));
      hn::StoreU(hn::DemoteTo(words, ordered), words,
                 reinterpret_cast<int16_t*>(to) + i * kLanes);
    }
  }
  static int32_t Start(int32_t sum) { return -128 * sum; }
};

#else

// One after the other, in 32 bits.
struct Widened {
  static constexpr int64_t kInputBytes = 1;
  using Weights = Ints;
  using Inputs = Ints;

  static HWY_INLINE Weights LoadWeights(const char* from) {
    return hn::Xor(hn::LoadU(I(), reinterpret_cast<const int32_t*>(from)),
                   hn::Set(I(), static_cast<int32_t>(0x80808080u)));
  }
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
  // The byte that `kShift` brings to the top.
  template <int kShift>
  static HWY_INLINE Ints Byte(Ints quad) {
    return hn::ShiftRight<24>(hn::ShiftLeft<kShift>(quad));
  }
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_DOT_INL_H
