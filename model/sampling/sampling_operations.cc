// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/sampling/sampling_operations.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <hwy/highway.h>

#include "model/compute/each_target.h"
#include "model/compute/vector16-inl.h"
#include "model/operations/cpu_operations.h"
#include "model/sampling/sampling_operations.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The first `count` of 16; the rest is -infinity, and not read.
HWY_INLINE V16 LoadLogits16(const float* from, int64_t count) {
  if (count >= 16) return Load16(from);
  HWY_ALIGN float some[16];
  std::fill_n(some, 16, -kInfinity);
  std::copy_n(from, count, some);
  return Load16(some);
}

// Whether no logit so far is NaN or +infinity; and the maximum of some that are finite
// or -infinity.
#if HWY_NATIVE_FMA
struct Seen {
  hn::Mask<F> finite;
};
HWY_INLINE Seen NothingSeen() {
  return {hn::Lt(hn::Zero(F()), hn::Set(F(), kInfinity))};
}
HWY_INLINE bool AllUsable(const Seen& seen) { return hn::AllTrue(F(), seen.finite); }

HWY_INLINE float LargestOf(const float* logits, int64_t count, Seen& seen) {
  V16 most = Set16(-kInfinity);
  for (int64_t i = 0; i < count; i += 16) {
    const V16 logit = LoadLogits16(logits + i, count - i);
    most = Max(logit, most);
    for (int p = 0; p < kParts; ++p) {
      seen.finite = hn::And(seen.finite, hn::Lt(logit.v[p], hn::Set(F(), kInfinity)));
    }
  }
  return Max16(most);
}
#else
// Maps float bits to integers with the order of floats, NaN at both ends, or back;
// unlike floats, compilers compare many of them at once.
HWY_INLINE int32_t Ordered(int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); }

HWY_INLINE int32_t OrderOf(float logit) {
  int32_t bits;
  std::memcpy(&bits, &logit, sizeof(bits));
  return Ordered(bits);
}

struct Seen {
  int32_t most, least;
};
HWY_INLINE Seen NothingSeen() { return {INT32_MIN, INT32_MAX}; }
HWY_INLINE bool AllUsable(const Seen& seen) {
  return seen.most < OrderOf(kInfinity) && seen.least >= OrderOf(-kInfinity);
}

HWY_INLINE float LargestOf(const float* logits, int64_t count, Seen& seen) {
  Seen here = NothingSeen();
  for (int64_t i = 0; i < count; ++i) {
    const int32_t order = OrderOf(logits[i]);
    here.most = std::max(here.most, order);
    here.least = std::min(here.least, order);
  }
  seen.most = std::max(seen.most, here.most);
  seen.least = std::min(seen.least, here.least);
  const int32_t bits = Ordered(here.most);
  float logit;
  std::memcpy(&logit, &bits, sizeof(logit));
  return logit;
}
#endif

LargestLogit Largest(const float* logits, int64_t count) {
  LargestLogit best = {.logit = -kInfinity};
  Seen seen = NothingSeen();
  for (int64_t begin = 0; begin < count; begin += kSamplingBlock) {
    const float top =
        LargestOf(logits + begin, std::min(kSamplingBlock, count - begin), seen);
    if (!(top > best.logit)) continue;
    best.logit = top;
    best.id = begin;  // its block, for now
  }
  best.usable = AllUsable(seen) && best.logit > -kInfinity;
  if (best.usable)
    best.id = std::find(logits + best.id, logits + count, best.logit) - logits;
  return best;
}

HWY_INLINE V16 Exponents16(const LogitScale& scale, const V16& logit) {
  return Div(Sub(logit, Set16(scale.most)), Set16(scale.temperature));
}

// The bits of a float in [0, 1] are an integer times a power of two: the integer is
// shifted to where 1 is 2^40.
uint64_t Weigh(const LogitScale& scale, const float* logits, int64_t count,
               uint64_t* weights) {
  constexpr hn::CappedTag<uint64_t, 8> d64;
  constexpr hn::Rebind<uint32_t, decltype(d64)> d32;
  constexpr int kStep = static_cast<int>(hn::MaxLanes(d64));
  auto total = hn::Zero(d64);
  HWY_ALIGN float e[16];
  for (int64_t i = 0; i < count; i += 16) {
    const V16 logit = LoadLogits16(logits + i, count - i);
    Store16(Exp16(Exponents16(scale, logit)), e);
    for (int k = 0; k < 16; k += kStep) {
      const auto bits = hn::Load(d32, reinterpret_cast<const uint32_t*>(e) + k);
      const auto number =
          hn::Or(hn::And(bits, hn::Set(d32, 0x7FFFFFu)), hn::Set(d32, 0x800000u));
      const auto down = hn::Min(hn::Sub(hn::Set(d32, 127u), hn::ShiftRight<23>(bits)),
                                hn::Set(d32, 63u));
      const auto weight = hn::Shr(hn::ShiftLeft<17>(hn::PromoteTo(d64, number)),
                                  hn::PromoteTo(d64, down));
      hn::StoreU(weight, d64, weights + i + k);
      total = hn::Add(total, weight);
    }
  }
  HWY_ALIGN uint64_t lane[hn::MaxLanes(d64)];
  hn::Store(total, d64, lane);
  uint64_t sum = 0;
  for (const uint64_t part : lane) sum += part;
  return sum;
}

void Inform(const InformationScale& scale, const float* logits, int64_t count,
            float* information, float* entropy) {
  const Vec least = hn::Set(F(), 0x1p-40f);
  for (int64_t i = 0; i < count; i += 16) {
    const V16 x = Exponents16(scale.logits, LoadLogits16(logits + i, count - i));
    const V16 e = Exp16(x);
    const V16 share = Div(e, Set16(scale.total));
    const V16 inform = Sub(Set16(scale.log_total), x);
    V16 part = Mul(share, inform), shown;
    for (int p = 0; p < kParts; ++p) {
      const auto weighs = hn::Ge(e.v[p], least);
      part.v[p] = hn::IfThenElseZero(weighs, part.v[p]);
      shown.v[p] = hn::IfThenElse(weighs, inform.v[p], hn::Set(F(), kInfinity));
    }
    Store16(part, entropy + i);
    Store16(shown, information + i);
  }
}

float SumExp(float most, const float* logits, int64_t count) {
  V16 sum = Zero16();
  for (int64_t i = 0; i < count; i += 16) {
    sum = Add(sum, Exp16(Sub(LoadLogits16(logits + i, count - i), Set16(most))));
  }
  return Sum16(sum);
}

float Sum(const float* numbers, int64_t count) {
  V16 sum = Zero16();
  for (int64_t i = 0; i < count; i += 16) sum = Add(sum, Load16(numbers + i));
  return Sum16(sum);
}

int64_t Find(const float* scores, int64_t count, float least, int32_t first,
             int32_t* found) {
  const Vec bound = hn::Set(F(), least);
  int64_t total = 0;
  for (int64_t begin = 0; begin < count; begin += 16) {
    if (begin + 16 <= count) {
      const V16 score = Load16(scores + begin);
      auto any = hn::Ge(score.v[0], bound);
      for (int p = 1; p < kParts; ++p) any = hn::Or(any, hn::Ge(score.v[p], bound));
      if (hn::AllFalse(F(), any)) continue;
    }
    // No branch, since it would often be mispredicted; a compressing store is slower on
    // some processors.
    const int64_t end = std::min(begin + 16, count);
    for (int64_t i = begin; i < end; ++i) {
      found[total] = first + static_cast<int32_t>(i);
      total += scores[i] >= least;
    }
  }
  return total;
}

// Names in user interfaces.
constexpr const char* kName = HWY_TARGET == HWY_AVX2   ? "avx2"
                              : HWY_TARGET == HWY_AVX3 ? "avx512"
                                                       : "portable";

}  // namespace

SamplingOperations MakeSamplingOperations() {
  return {kName, Largest, Weigh, Inform, SumExp, Sum, Find};
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(MakeSamplingOperations);

std::span<const SamplingOperations> AllSamplingOperations() {
  static const std::vector<SamplingOperations> all = [] {
    // The kernels' tables are made by dispatch too, which must not run at the same
    // time.
    CpuTargets();
    std::vector<SamplingOperations> found;
    ForEachTarget(
        [&] { found.push_back(HWY_DYNAMIC_DISPATCH(MakeSamplingOperations)()); });
    return found;
  }();
  return all;
}

const SamplingOperations& SamplingOperationsOf(std::string_view target) {
  const std::span<const SamplingOperations> all = AllSamplingOperations();
  if (target.empty()) return all.front();
  for (const SamplingOperations& operations : all) {
    if (operations.target == target) return operations;
  }
  return all.back();
}

}  // namespace mnemon
#endif
