// SPDX-License-Identifier: MIT
// Turn of calls.h. Included once per target by Highway.
#if defined(MNEMON_SIMD_TURN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_SIMD_TURN_INL_H
#undef MNEMON_SIMD_TURN_INL_H
#else
#define MNEMON_SIMD_TURN_INL_H
#endif

#include <algorithm>

#include "model/blocks/attention/kernels/calls.h"
#include "model/compute/simd_linear-inl.h"
#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// Turns pairs i .. i+15 of some heads by the same angles.
class PairTurn {
 public:
  PairTurn(const AngleView& view, float magnitude, int64_t position, int64_t i)
      : i_(i), half_(view.turns / 2) {
    const double* const a = view.coarse + position / view.stride * view.turns + 2 * i;
    const double* const b = view.fine + position % view.stride * view.turns + 2 * i;
    HWY_ALIGN float sines[16] = {}, cosines[16] = {};
    for (int64_t k = 0; k < std::min<int64_t>(16, half_ - i); ++k) {
      const double sine = a[2 * k] * b[2 * k + 1] + a[2 * k + 1] * b[2 * k];
      const double cosine = a[2 * k + 1] * b[2 * k + 1] - a[2 * k] * b[2 * k];
      sines[k] = static_cast<float>(sine * magnitude);
      cosines[k] = static_cast<float>(cosine * magnitude);
    }
    sines_ = Load16(sines);
    cosines_ = Load16(cosines);
  }

  HWY_INLINE void operator()(float* head) const {
    const int64_t left = half_ - i_;
    float *const low = head + i_, *const high = low + half_;
    const V16 x = LoadSome16(low, left), y = LoadSome16(high, left);
    StoreSome16(Flush(Fma(x, cosines_, Sub(Zero16(), Mul(y, sines_)))), low, left);
    StoreSome16(Flush(Fma(y, cosines_, Mul(x, sines_))), high, left);
  }

 private:
  const int64_t i_, half_;
  V16 sines_, cosines_;
};

void Turn(const TurnCall& call, Share share) {
  const int64_t units = call.rows * call.groups, end = share.end(units);
  for (int64_t unit = share.begin(units); unit < end;) {
    const int64_t r = unit / call.groups;
    const Part groups{unit % call.groups,
                      std::min(call.groups, unit % call.groups + end - unit)};
    float* const row = call.heads.row(r);
    const auto each = [&](const auto& with) {
      for (int64_t g = groups.begin; g < groups.end; ++g) {
        for (int64_t i = 0; i < call.group_heads(); ++i) {
          with(row + call.HeadAt(g, i), i < call.queries);
        }
      }
    };
    each([&](float* head, bool query) {
      const NormView& norm = query ? call.query_norm : call.key_norm;
      if (norm.gain != nullptr) NormRow(head, call.width, norm, head);
    });
    if (call.angles.coarse != nullptr) {
      for (int64_t i = 0; i < call.angles.turns / 2; i += 16) {
        const PairTurn turn(call.angles, call.magnitude, call.positions[r], i);
        each([&](float* head, bool) { turn(head); });
      }
    }
    unit += groups.size();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_SIMD_TURN_INL_H
