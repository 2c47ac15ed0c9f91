// SPDX-License-Identifier: MIT
// Sixteen doubles with the operations of sixteen floats (vector16-inl.h), so that a
// kernel written for both can be compared with finite differences. Included once per
// target by Highway.
#if defined(MNEMON_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MNEMON_VECTORS_INL_H
#undef MNEMON_VECTORS_INL_H
#else
#define MNEMON_VECTORS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/compute/vector16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

struct D16 {
  double v[16];
};

template <class Of>
HWY_INLINE D16 Each(const Of& of) {
  D16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = of(i);
  return out;
}

HWY_INLINE D16 Set16(double x) {
  return Each([&](int) { return x; });
}
HWY_INLINE D16 LoadSome16(const double* from, int64_t count) {
  return Each([&](int i) { return i < count ? from[i] : 0.0; });
}
HWY_INLINE D16 Load16(const double* from) { return LoadSome16(from, 16); }
HWY_INLINE void StoreSome16(const D16& x, double* to, int64_t count) {
  std::copy_n(x.v, std::min<int64_t>(count, 16), to);
}
HWY_INLINE void Store16(const D16& x, double* to) { StoreSome16(x, to, 16); }
HWY_INLINE D16 Add(const D16& a, const D16& b) {
  return Each([&](int i) { return a.v[i] + b.v[i]; });
}
HWY_INLINE D16 Sub(const D16& a, const D16& b) {
  return Each([&](int i) { return a.v[i] - b.v[i]; });
}
HWY_INLINE D16 Mul(const D16& a, const D16& b) {
  return Each([&](int i) { return a.v[i] * b.v[i]; });
}
HWY_INLINE D16 Div(const D16& a, const D16& b) {
  return Each([&](int i) { return a.v[i] / b.v[i]; });
}
HWY_INLINE D16 Fma(const D16& a, const D16& b, const D16& c) {
  return Each([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
HWY_INLINE D16 Max(const D16& a, const D16& b) {
  return Each([&](int i) { return std::max(a.v[i], b.v[i]); });
}
HWY_INLINE D16 IfNegative(const D16& s, const D16& no, const D16& yes) {
  return Each([&](int i) { return s.v[i] < 0 ? no.v[i] : yes.v[i]; });
}
HWY_INLINE D16 Exp16(const D16& x) {
  return Each([&](int i) { return std::exp(x.v[i]); });
}
HWY_INLINE D16 Sigmoid16(const D16& x) {
  return Each([&](int i) { return 1 / (1 + std::exp(-x.v[i])); });
}
HWY_INLINE double Sum16(const D16& x) {
  double sum = 0;
  for (const double v : x.v) sum += v;
  return sum;
}
HWY_INLINE double Max16(const D16& x) { return *std::max_element(x.v, x.v + 16); }

template <class Real>
using Sixteen = std::conditional_t<std::is_same_v<Real, float>, V16, D16>;

// Calls each(i, left) for i = 0, 16, .. below `width`; `left` numbers remain.
template <class Real, class Each>
HWY_INLINE void ForSixteens(int64_t width, const Each& each) {
  for (int64_t i = 0; i < width; i += 16) each(i, width - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#endif  // MNEMON_VECTORS_INL_H
