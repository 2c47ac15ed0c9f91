// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#include "model/gradient/feature_map.h"

#include <algorithm>
#include <cmath>

#include "model/gradient/row_operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/gradient/feature_map.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/gradient/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

HWY_INLINE D16 Sigmoid16(const D16& x) {
  return Each([&](int i) { return 1 / (1 + std::exp(-x.v[i])); });
}

template <class Real>
void SigmoidForwardHere(int64_t width, Real* x) {
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    StoreSome16(Sigmoid16(LoadSome16(x + i, left)), x + i, left);
  });
}

template <class Real>
void SigmoidBackwardHere(int64_t width, const Real* y, Real* dy) {
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto out = LoadSome16(y + i, left);
    const auto slope = Mul(out, Sub(Set16(Real{1}), out));
    StoreSome16(Mul(LoadSome16(dy + i, left), slope), dy + i, left);
  });
}

// x' twice, one behind the other: numbers 2 width - i on are x' rolled by i.
template <class Real>
void RollableHalves(int64_t width, const Real* x, Real* twice) {
  const auto zero = Set16(Real{0});
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto value = LoadSome16(x + i, left);
    StoreSome16(IfNegative(value, zero, value), twice + i, left);
    StoreSome16(IfNegative(value, Sub(zero, value), zero), twice + width + i, left);
  });
  std::copy_n(twice, 2 * width, twice + 2 * width);
}

template <class Real>
Real DpfpForwardHere(int64_t width, int64_t nu, const Real* x, Real* phi,
                     Real* scratch) {
  const int64_t count = 2 * width;
  RollableHalves(width, x, scratch);
  auto sum = Set16(Real{0});
  for (int64_t i = 1; i <= nu; ++i) {
    const Real* const rolled = scratch + count - i;
    Real* const to = phi + (i - 1) * count;
    ForSixteens<Real>(count, [&](int64_t j, int64_t left) {
      const auto product =
          Mul(LoadSome16(scratch + j, left), LoadSome16(rolled + j, left));
      StoreSome16(product, to + j, left);
      sum = Add(sum, product);
    });
  }
  const Real divisor = Sum16(sum) + Real{1e-6};
  AddScaled<Real>(nu * count, Real{1} / divisor, phi, nullptr, phi);
  return divisor;
}

template <class Real>
void DpfpBackwardHere(int64_t width, int64_t nu, const Real* x, const Real* phi,
                      Real divisor, Real* dphi, Real* dx, Real* scratch) {
  const int64_t count = 2 * width;
  Real* const halves = scratch;
  RollableHalves(width, x, halves);
  // Gradients of the products: (dphi - phi.dphi) / divisor.
  const auto along = Set16(DotProduct(nu * count, phi, dphi));
  const auto inverse = Set16(Real{1} / divisor);
  ForSixteens<Real>(nu * count, [&](int64_t j, int64_t left) {
    StoreSome16(Mul(Sub(LoadSome16(dphi + j, left), along), inverse), dphi + j, left);
  });
  // dx'_j = sum over i of dp(i, j) x'_{j-i} + dp(i, j+i) x'_{j+i}.
  Real* const dhalves = scratch + 2 * count;
  std::fill_n(dhalves, count, Real{0});
  for (int64_t i = 1; i <= nu; ++i) {
    const Real* const dp = dphi + (i - 1) * count;
    const Real* const rolled = halves + count - i;
    ForSixteens<Real>(count, [&](int64_t j, int64_t left) {
      StoreSome16(Fma(LoadSome16(dp + j, left), LoadSome16(rolled + j, left),
                      LoadSome16(dhalves + j, left)),
                  dhalves + j, left);
    });
    const auto add = [&](int64_t begin, int64_t end, int64_t from) {
      ForSixteens<Real>(end - begin, [&](int64_t j, int64_t left) {
        StoreSome16(
            Fma(LoadSome16(dp + from + j, left), LoadSome16(halves + from + j, left),
                LoadSome16(dhalves + begin + j, left)),
            dhalves + begin + j, left);
      });
    };
    add(0, count - i, i);
    add(count - i, count, 0);
  }
  const auto zero = Set16(Real{0});
  ForSixteens<Real>(width, [&](int64_t i, int64_t left) {
    const auto value = LoadSome16(x + i, left), upper = LoadSome16(dhalves + i, left),
               lower = LoadSome16(dhalves + width + i, left);
    StoreSome16(
        Sub(IfNegative(Sub(zero, value), upper, zero), IfNegative(value, lower, zero)),
        dx + i, left);
  });
}

void SigmoidForwardFloat(int64_t width, float* x) { SigmoidForwardHere(width, x); }
void SigmoidBackwardFloat(int64_t width, const float* y, float* dy) {
  SigmoidBackwardHere(width, y, dy);
}
float DpfpForwardFloat(int64_t width, int64_t nu, const float* x, float* phi,
                       float* scratch) {
  return DpfpForwardHere(width, nu, x, phi, scratch);
}
void DpfpBackwardFloat(int64_t width, int64_t nu, const float* x, const float* phi,
                       float divisor, float* dphi, float* dx, float* scratch) {
  DpfpBackwardHere(width, nu, x, phi, divisor, dphi, dx, scratch);
}
void SigmoidForwardDouble(int64_t width, double* x) { SigmoidForwardHere(width, x); }
void SigmoidBackwardDouble(int64_t width, const double* y, double* dy) {
  SigmoidBackwardHere(width, y, dy);
}
double DpfpForwardDouble(int64_t width, int64_t nu, const double* x, double* phi,
                         double* scratch) {
  return DpfpForwardHere(width, nu, x, phi, scratch);
}
void DpfpBackwardDouble(int64_t width, int64_t nu, const double* x, const double* phi,
                        double divisor, double* dphi, double* dx, double* scratch) {
  DpfpBackwardHere(width, nu, x, phi, divisor, dphi, dx, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(SigmoidForwardFloat);
HWY_EXPORT(SigmoidBackwardFloat);
HWY_EXPORT(DpfpForwardFloat);
HWY_EXPORT(DpfpBackwardFloat);
HWY_EXPORT(SigmoidForwardDouble);
HWY_EXPORT(SigmoidBackwardDouble);
HWY_EXPORT(DpfpForwardDouble);
HWY_EXPORT(DpfpBackwardDouble);

template <>
void SigmoidForward(int64_t width, float* x) {
  HWY_DYNAMIC_DISPATCH(SigmoidForwardFloat)(width, x);
}
template <>
void SigmoidBackward(int64_t width, const float* y, float* dy) {
  HWY_DYNAMIC_DISPATCH(SigmoidBackwardFloat)(width, y, dy);
}
template <>
float DpfpForward(int64_t width, int64_t nu, const float* x, float* phi,
                  float* scratch) {
  return HWY_DYNAMIC_DISPATCH(DpfpForwardFloat)(width, nu, x, phi, scratch);
}
template <>
void DpfpBackward(int64_t width, int64_t nu, const float* x, const float* phi,
                  float divisor, float* dphi, float* dx, float* scratch) {
  HWY_DYNAMIC_DISPATCH(DpfpBackwardFloat)
  (width, nu, x, phi, divisor, dphi, dx, scratch);
}
template <>
void SigmoidForward(int64_t width, double* x) {
  HWY_DYNAMIC_DISPATCH(SigmoidForwardDouble)(width, x);
}
template <>
void SigmoidBackward(int64_t width, const double* y, double* dy) {
  HWY_DYNAMIC_DISPATCH(SigmoidBackwardDouble)(width, y, dy);
}
template <>
double DpfpForward(int64_t width, int64_t nu, const double* x, double* phi,
                   double* scratch) {
  return HWY_DYNAMIC_DISPATCH(DpfpForwardDouble)(width, nu, x, phi, scratch);
}
template <>
void DpfpBackward(int64_t width, int64_t nu, const double* x, const double* phi,
                  double divisor, double* dphi, double* dx, double* scratch) {
  HWY_DYNAMIC_DISPATCH(DpfpBackwardDouble)
  (width, nu, x, phi, divisor, dphi, dx, scratch);
}

}  // namespace mnemon
#endif
