// SPDX-License-Identifier: MIT
// Errors against long double of the C library, 64 bits of mantissa.
#include "model/compute/functions.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace mnemon::numerics {
namespace {

// The largest error over drawn arguments, in units of the last place of the result, or
// of 1 where that is more.
template <class Function, class Truth>
double WorstError(double from, double to, bool relative, const Function& function,
                  const Truth& truth) {
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> drawn(from, to);
  double worst = 0;
  for (int i = 0; i < 300'000; ++i) {
    const double x = drawn(random);
    const long double wanted = truth(static_cast<long double>(x));
    const auto rounded = static_cast<double>(wanted);
    const double size = relative ? std::abs(rounded) : 1.0;
    const double ulp = std::nextafter(size, 2 * size) - size;
    worst = std::max(
        worst, static_cast<double>(
                   std::abs(static_cast<long double>(function(x)) - wanted) / ulp));
  }
  return worst;
}

TEST(Functions, ExpIsNear) {
  const auto truth = [](long double x) { return std::exp(x); };
  EXPECT_LT(WorstError(-700, 700, true, Exp, truth), 1.25);
  EXPECT_LT(WorstError(-1, 1, true, Exp, truth), 1.25);
  EXPECT_EQ(Exp(0), 1);
  EXPECT_EQ(Exp(-1e9), 0);
  EXPECT_EQ(Exp(1e9), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Exp(std::nan(""))));
}

TEST(Functions, Exp2IsNearAndExactForIntegers) {
  EXPECT_LT(
      WorstError(-1000, 1000, true, Exp2, [](long double x) { return std::exp2(x); }),
      1.25);
  for (int n = -1021; n < 1024; ++n) EXPECT_EQ(Exp2(n), std::ldexp(1.0, n));
  EXPECT_EQ(Exp2(-2000), 0);
  EXPECT_EQ(Exp2(2000), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Exp2(std::nan(""))));
}

TEST(Functions, LogIsNear) {
  const auto truth = [](long double x) { return std::log(x); };
  EXPECT_LT(WorstError(1e-300, 1e300, true, Log, truth), 2.25);
  EXPECT_LT(WorstError(0.9, 1.1, true, Log, truth), 2.25);
  EXPECT_LT(WorstError(0.0, 10, true, Log, truth), 2.25);
  EXPECT_EQ(Log(1), 0);
}

TEST(Functions, SineAndCosineAreNear) {
  const auto sine = [](long double x) { return std::sin(x); };
  const auto cosine = [](long double x) { return std::cos(x); };
  for (const double most : {1.0, 1000.0, 1e6, 536870912.0}) {
    EXPECT_LT(WorstError(-most, most, false, Sin, sine), 1) << most;
    EXPECT_LT(WorstError(-most, most, false, Cos, cosine), 1) << most;
  }
  EXPECT_EQ(Sin(0), 0);
  EXPECT_EQ(Cos(0), 1);
  EXPECT_TRUE(std::isnan(Sin(std::nan(""))));
}

}  // namespace
}  // namespace mnemon::numerics
