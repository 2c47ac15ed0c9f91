// SPDX-License-Identifier: MIT
// Compiled once per instruction set.
#include "model/blocks/fast_weights/feature_map_gradient.h"

#include <algorithm>
#include <cmath>

#include "model/compute/gradient/row_operations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/blocks/fast_weights/feature_map_gradient.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/compute/gradient/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

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

// x' twice in a row: numbers from 2 width - i on are x' rolled by i.
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

// The products of DPFP, and their sums over 16 columns.
template <class Real>
auto Products(int64_t width, int64_t nu, const Real* x, Real* products, Real* scratch) {
  const int64_t count = 2 * width;
  RollableHalves(width, x, scratch);
  auto sum = Set16(Real{0});
  for (int64_t i = 1; i <= nu; ++i) {
    const Real* const rolled = scratch + count - i;
    Real* const to = products + (i - 1) * count;
    ForSixteens<Real>(count, [&](int64_t j, int64_t left) {
      const auto product =
          Mul(LoadSome16(scratch + j, left), LoadSome16(rolled + j, left));
      StoreSome16(product, to + j, left);
      sum = Add(sum, product);
    });
  }
  return sum;
}

// ELU + 1; returns sums likewise.
template <class Real>
auto EluPlusOne(int64_t width, const Real* x, Real* out) {
  const auto zero = Set16(Real{0});
  auto sum = zero;
  ForSixteens<Real>(width, [&](int64_t j, int64_t left) {
    const auto value = LoadSome16(x + j, left);
    // exp is discarded for x that are not negative.
    StoreSome16(IfNegative(value, Exp16(IfNegative(value, value, zero)),
                           Add(value, Set16(Real{1}))),
                out + j, left);
    sum = Add(sum, LoadSome16(out + j, left));
  });
  return sum;
}

template <class Real>
Real FeaturesForwardHere(const FeatureMap& map, int64_t width, const Real* x, Real* phi,
                         Real* scratch) {
  const auto sum =
      map.elu ? EluPlusOne(width, x, phi) : Products(width, map.nu, x, phi, scratch);
  const Real divisor = Sum16(sum) + Real{1e-6};
  AddScaled<Real>(map.features(width), Real{1} / divisor, phi, nullptr, phi);
  return divisor;
}

// dx from the gradients of the products.
template <class Real>
void ProductsBackward(int64_t width, int64_t nu, const Real* x, const Real* dproducts,
                      Real* dx, Real* scratch) {
  const int64_t count = 2 * width;
  Real* const halves = scratch;
  RollableHalves(width, x, halves);
  // dx'_j = sum over i of dp(i, j) x'_{j-i} + dp(i, j+i) x'_{j+i}.
  Real* const dhalves = scratch + 2 * count;
  std::fill_n(dhalves, count, Real{0});
  for (int64_t i = 1; i <= nu; ++i) {
    const Real* const dp = dproducts + (i - 1) * count;
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

template <class Real>
void FeaturesBackwardHere(const FeatureMap& map, int64_t width, const Real* x,
                          const Real* phi, Real divisor, Real* dphi, Real* dx,
                          Real* scratch) {
  const int64_t count = map.features(width);
  // Gradient of the undivided features: (dphi - phi.dphi) / divisor.
  const auto along = Set16(DotProduct(count, phi, dphi));
  const auto inverse = Set16(Real{1} / divisor);
  ForSixteens<Real>(count, [&](int64_t j, int64_t left) {
    StoreSome16(Mul(Sub(LoadSome16(dphi + j, left), along), inverse), dphi + j, left);
  });
  if (!map.elu) return ProductsBackward(width, map.nu, x, dphi, dx, scratch);
  // exp(x) is phi times the divisor.
  ForSixteens<Real>(count, [&](int64_t j, int64_t left) {
    const auto slope =
        IfNegative(LoadSome16(x + j, left),
                   Mul(LoadSome16(phi + j, left), Set16(divisor)), Set16(Real{1}));
    StoreSome16(Mul(LoadSome16(dphi + j, left), slope), dx + j, left);
  });
}

void SigmoidForwardFloat(int64_t width, float* x) { SigmoidForwardHere(width, x); }
void SigmoidBackwardFloat(int64_t width, const float* y, float* dy) {
  SigmoidBackwardHere(width, y, dy);
}
float FeaturesForwardFloat(const FeatureMap& map, int64_t width, const float* x,
                           float* phi, float* scratch) {
  return FeaturesForwardHere(map, width, x, phi, scratch);
}
void FeaturesBackwardFloat(const FeatureMap& map, int64_t width, const float* x,
                           const float* phi, float divisor, float* dphi, float* dx,
                           float* scratch) {
  FeaturesBackwardHere(map, width, x, phi, divisor, dphi, dx, scratch);
}
void SigmoidForwardDouble(int64_t width, double* x) { SigmoidForwardHere(width, x); }
void SigmoidBackwardDouble(int64_t width, const double* y, double* dy) {
  SigmoidBackwardHere(width, y, dy);
}
double FeaturesForwardDouble(const FeatureMap& map, int64_t width, const double* x,
                             double* phi, double* scratch) {
  return FeaturesForwardHere(map, width, x, phi, scratch);
}
void FeaturesBackwardDouble(const FeatureMap& map, int64_t width, const double* x,
                            const double* phi, double divisor, double* dphi, double* dx,
                            double* scratch) {
  FeaturesBackwardHere(map, width, x, phi, divisor, dphi, dx, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mnemon {

HWY_EXPORT(SigmoidForwardFloat);
HWY_EXPORT(SigmoidBackwardFloat);
HWY_EXPORT(FeaturesForwardFloat);
HWY_EXPORT(FeaturesBackwardFloat);
HWY_EXPORT(SigmoidForwardDouble);
HWY_EXPORT(SigmoidBackwardDouble);
HWY_EXPORT(FeaturesForwardDouble);
HWY_EXPORT(FeaturesBackwardDouble);

template <>
void SigmoidForward(int64_t width, float* x) {
  HWY_DYNAMIC_DISPATCH(SigmoidForwardFloat)(width, x);
}
template <>
void SigmoidBackward(int64_t width, const float* y, float* dy) {
  HWY_DYNAMIC_DISPATCH(SigmoidBackwardFloat)(width, y, dy);
}
template <>
float FeaturesForward(const FeatureMap& map, int64_t width, const float* x, float* phi,
                      float* scratch) {
  return HWY_DYNAMIC_DISPATCH(FeaturesForwardFloat)(map, width, x, phi, scratch);
}
template <>
void FeaturesBackward(const FeatureMap& map, int64_t width, const float* x,
                      const float* phi, float divisor, float* dphi, float* dx,
                      float* scratch) {
  HWY_DYNAMIC_DISPATCH(FeaturesBackwardFloat)
  (map, width, x, phi, divisor, dphi, dx, scratch);
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
double FeaturesForward(const FeatureMap& map, int64_t width, const double* x,
                       double* phi, double* scratch) {
  return HWY_DYNAMIC_DISPATCH(FeaturesForwardDouble)(map, width, x, phi, scratch);
}
template <>
void FeaturesBackward(const FeatureMap& map, int64_t width, const double* x,
                      const double* phi, double divisor, double* dphi, double* dx,
                      double* scratch) {
  HWY_DYNAMIC_DISPATCH(FeaturesBackwardDouble)
  (map, width, x, phi, divisor, dphi, dx, scratch);
}

}  // namespace mnemon
#endif
