// SPDX-License-Identifier: MIT
// Philox of 16 blocks in parallel, compiled once per instruction set.
#include "model/compute/dropout_mask.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/compute/dropout_mask.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using U32 = hn::CappedTag<uint32_t, 16>;
using V = hn::Vec<U32>;

// High and low half of a 64-bit product.
struct Product {
  V low, high;
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Product Multiply(V a, V b) {
  const uint64_t product = uint64_t{hn::GetLane(a)} * hn::GetLane(b);
  return {hn::Set(U32(), static_cast<uint32_t>(product)),
          hn::Set(U32(), static_cast<uint32_t>(product >> 32))};
}
#else
HWY_INLINE Product Multiply(V a, V b) {
  const hn::Repartition<uint64_t, U32> u64;
  const V above = hn::BitCast(U32(), hn::ShiftRight<32>(hn::BitCast(u64, a)));
  const V odd = hn::BitCast(U32(), hn::MulEven(above, b));
  const V even = hn::BitCast(U32(), hn::ShiftRight<32>(hn::MulEven(a, b)));
  return {hn::Mul(a, b), hn::OddEven(odd, even)};
}
#endif

// counter: block, position, row, site. Computes blocks block .. block + 15.
void FillGroup(uint64_t key, const uint32_t* counter, uint32_t threshold, float kept,
               float* mask) {
  const U32 u32;
  const hn::RebindToFloat<U32> f32;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(U32()));
  const V multiplier0 = hn::Set(u32, 0xD2511F53),
          multiplier1 = hn::Set(u32, 0xCD9E8D57);
  const V least = hn::Set(u32, threshold), lower = hn::Set(u32, 0xFFFF);
  const auto value = hn::Set(f32, kept);
  for (int part = 0; part < 16; part += kLanes) {
    V c0 = hn::Iota(u32, counter[0] + static_cast<uint32_t>(part));
    V c1 = hn::Set(u32, counter[1]);
    V c2 = hn::Set(u32, counter[2]);
    V c3 = hn::Set(u32, counter[3]);
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const Product a = Multiply(c0, multiplier0), b = Multiply(c2, multiplier1);
      c0 = hn::Xor(hn::Xor(b.high, c1), hn::Set(u32, key0));
      c1 = b.low;
      c2 = hn::Xor(hn::Xor(a.high, c3), hn::Set(u32, key1));
      c3 = a.low;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    float* to = mask + part;
    for (const V word : {c0, c1, c2, c3}) {
      for (const V half : {hn::And(word, lower), hn::ShiftRight<16>(word)}) {
        const auto drops = hn::RebindMask(f32, hn::Lt(half, least));
        hn::StoreU(hn::IfThenZeroElse(drops, value), f32, to);
        to += 16;
      }
    }
  }
}

// place: position, row, site.
void FillMask(uint64_t key, const uint32_t* place, uint32_t threshold, float kept,
              std::span<float> mask) {
  constexpr size_t kGroup = DropoutMask::kGroup;
  uint32_t counter[4] = {0, place[0], place[1], place[2]};
  float group[kGroup];
  for (size_t begin = 0; begin < mask.size(); begin += kGroup, counter[0] += 16) {
    const size_t count = std::min(kGroup, mask.size() - begin);
    if (count == kGroup) {
      FillGroup(key, counter, threshold, kept, mask.data() + begin);
    } else {
      FillGroup(key, counter, threshold, kept, group);
      std::copy_n(group, count, mask.data() + begin);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(FillMask);

// Something is kept even for p close to 1.
DropoutMask::DropoutMask(double p, uint64_t key)
    : key_(key),
      threshold_(
          static_cast<uint32_t>(std::min<int64_t>(65535, std::lround(p * 65536)))),
      kept_(static_cast<float>(65536.0 / (65536.0 - threshold_))) {}

uint32_t DropoutMask::Site(const MaskPlace& place) {
  return static_cast<uint32_t>(place.layer * 8 + static_cast<int64_t>(place.kind)) ^
         static_cast<uint32_t>(place.head) << 16;
}

void DropoutMask::Fill(const MaskPlace& place, std::span<float> mask) const {
  const uint32_t counter[3] = {static_cast<uint32_t>(place.position),
                               static_cast<uint32_t>(place.row), Site(place)};
  HWY_DYNAMIC_DISPATCH(FillMask)(key_, counter, threshold_, kept_, mask);
}

}  // namespace mnemon
#endif
