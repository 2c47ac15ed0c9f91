// SPDX-License-Identifier: MIT
// The arithmetic of every target that this machine has, against the C library and
// against each other, number by number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/model/compute/vector16_test.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
//
#include <hwy/highway.h>

#include "model/compute/each_target.h"
#include "model/compute/vector16-inl.h"
#include "tests/model/compute/vector16_cases.h"

HWY_BEFORE_NAMESPACE();
namespace mnemon {
namespace HWY_NAMESPACE {

// out[i] = a[i] b[i] + c[i], `count` a multiple of 16.
void FmaOf(const float* a, const float* b, const float* c, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    Store16(Fma(Load16(a + i), Load16(b + i), Load16(c + i)), out + i);
  }
}
template <V16 (*kFunction)(const V16&)>
void MapOf(const float* in, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) Store16(kFunction(Load16(in + i)), out + i);
}

TargetFunctions MakeFunctions() {
  return {hwy::TargetName(HWY_TARGET),
          FmaOf,
          MapOf<Exp16>,
          MapOf<Sigmoid16>,
          MapOf<Gelu16>,
          MapOf<Tanh16>,
          MapOf<Flush>};
}

}  // namespace HWY_NAMESPACE
}  // namespace mnemon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

HWY_EXPORT(MakeFunctions);

std::vector<TargetFunctions> AllTargets() {
  std::vector<TargetFunctions> found;
  ForEachTarget([&] { found.push_back(HWY_DYNAMIC_DISPATCH(MakeFunctions)()); });
  return found;
}

constexpr size_t kBatch = 1024;

// Any bits, or an exponent near that of others, so that sums cancel and round.
float AnyFloat(std::mt19937& random) {
  const uint32_t bits = random();
  switch (random() % 4) {
    case 0:
      return std::bit_cast<float>(bits);
    case 1:  // subnormal and tiny
      return std::bit_cast<float>(bits & 0x83FFFFFFu);
    default:  // 2^-8 .. 2^8, half of them with few bits set
      const uint32_t mantissa = bits & (bits % 3 == 0 ? 0x7FF000u : 0x7FFFFFu);
      const auto exponent = static_cast<uint32_t>(119 + random() % 16);
      return std::bit_cast<float>((bits & 0x80000000u) | exponent << 23 | mantissa);
  }
}

bool Same(float a, float b) {
  return std::isnan(a) ? std::isnan(b)
                       : std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// MNEMON_TEST_FMA_INPUTS=1000000000 for as many.
int64_t Inputs() {
  const char* const wanted = std::getenv("MNEMON_TEST_FMA_INPUTS");
  return wanted == nullptr ? 4'000'000 : std::atoll(wanted);
}

TEST(Vector16, FmaRoundsOnce) {
  const std::vector<TargetFunctions> targets = AllTargets();
  std::mt19937 random(1);
  std::vector<float> a(kBatch), b(kBatch), c(kBatch), out(kBatch), wanted(kBatch);
  for (int64_t done = 0; done < Inputs(); done += kBatch) {
    for (size_t i = 0; i < kBatch; ++i) {
      a[i] = AnyFloat(random);
      b[i] = AnyFloat(random);
      // Half of them nearly cancel the product.
      c[i] = random() % 2 == 0
                 ? AnyFloat(random)
                 : -a[i] * b[i] * (1 + static_cast<float>(random() % 5) * 0x1p-23f);
      wanted[i] = std::fma(a[i], b[i], c[i]);
    }
    for (const TargetFunctions& target : targets) {
      target.fma(a.data(), b.data(), c.data(), out.data(), kBatch);
      for (size_t i = 0; i < kBatch; ++i) {
        ASSERT_TRUE(Same(out[i], wanted[i]))
            << target.name << ": " << std::hexfloat << a[i] << " " << b[i] << " + "
            << c[i] << " = " << out[i] << ", not " << wanted[i];
      }
    }
  }
}

// The sum lies so closely below the middle of 2^-126 and the largest subnormal number
// that double holds the middle.
TEST(Vector16, FmaRoundsOnceToTheLargestSubnormal) {
  float a = 1, b = 1;
  for (double above = 0; !(above > 0 && above < 0x1p-30);) {
    a = std::nextafter(a, 2.0f);
    b = 1 / a;
    above = double{a} * b - 1;
  }
  const std::vector<float> x(16, -a * 0x1p-75f), y(16, b * 0x1p-75f), z(16, 0x1p-126f);
  std::vector<float> out(16);
  for (const TargetFunctions& target : AllTargets()) {
    target.fma(x.data(), y.data(), z.data(), out.data(), 16);
    EXPECT_EQ(out[0], 0x1p-126f - 0x1p-149f) << target.name;
  }
}

// Every 9973rd float, the special ones, and closely those of a middle size.
std::vector<float> Everywhere() {
  std::vector<float> all = {
      0.0f,          -0.0f,     INFINITY,   -INFINITY,
      std::nanf(""), kSmallest, -kSmallest, std::nextafter(kSmallest, 0.0f)};
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973) {
    all.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (float x = -40; x < 40; x += 1e-3f) all.push_back(x);
  all.resize((all.size() + 15) / 16 * 16);
  return all;
}

struct Function {
  const char* name;
  void (*TargetFunctions::*map)(const float*, float*, int64_t);
  double (*truth)(double);
  double least, most;        // where it is held against the truth
  double error;              // of the truth's size, or of 1 where that is less
  float defined = INFINITY;  // up to which input
};

constexpr double kErrorOfGelu = 3e-7;

const Function kFunctions[] = {
    {"exp", &TargetFunctions::exp, [](double x) { return std::exp(x); }, -33, 20,
     1.2e-7, 88},
    {"sigmoid", &TargetFunctions::sigmoid,
     [](double x) { return 1 / (1 + std::exp(-x)); }, -1e30, 1e30, 1.2e-7},
    {"gelu", &TargetFunctions::gelu,
     [](double x) { return x * std::erfc(-x * 0.70710678118654752) / 2; }, -1e3, 1e3,
     kErrorOfGelu},
    {"tanh", &TargetFunctions::tanh, [](double x) { return std::tanh(x); }, -1e30, 1e30,
     1.2e-7},
    {"flush", &TargetFunctions::flush, [](double x) { return x; }, -1e30, 1e30, 1e-14}};

TEST(Vector16, FunctionsAreTheSameOnEveryTargetAndNearTheTruth) {
  const std::vector<TargetFunctions> targets = AllTargets();
  const std::vector<float> in = Everywhere();
  for (const Function& function : kFunctions) {
    std::vector<float> first(in.size()), out(in.size());
    (targets[0].*function.map)(in.data(), first.data(),
                               static_cast<int64_t>(in.size()));
    for (const TargetFunctions& target : targets) {
      (target.*function.map)(in.data(), out.data(), static_cast<int64_t>(in.size()));
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i] > function.defined) continue;
        ASSERT_TRUE(Same(out[i], first[i]))
            << function.name << " of " << in[i] << ": " << target.name << " " << out[i]
            << ", " << targets[0].name << " " << first[i];
      }
    }
    for (size_t i = 0; i < in.size(); ++i) {
      if (std::isnan(in[i])) {
        ASSERT_TRUE(std::isnan(first[i])) << function.name;
      }
      if (!(in[i] >= function.least && in[i] <= function.most)) continue;
      const double truth = function.truth(in[i]);
      ASSERT_LE(std::abs(first[i] - truth),
                function.error * std::max(1.0, std::abs(truth)))
          << function.name << " of " << in[i];
    }
  }
}

TEST(Vector16, SmallNumbersBecomeZero) {
  for (const TargetFunctions& target : AllTargets()) {
    std::vector<float> in(16), out(16);
    in[0] = kSmallest;
    in[1] = std::nextafter(kSmallest, 0.0f);
    in[2] = -in[1];
    in[3] = -0.0f;
    in[4] = 1e-45f;
    target.flush(in.data(), out.data(), 16);
    EXPECT_EQ(out[0], kSmallest);
    for (int i = 1; i < 5; ++i) EXPECT_TRUE(Same(out[i], 0.0f)) << i;
    for (size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(Same(Flush(in[i]), out[i]));
    in.assign(16, -33.3f);
    target.exp(in.data(), out.data(), 16);
    EXPECT_TRUE(Same(out[0], 0.0f));
  }
}

}  // namespace
}  // namespace mnemon
#endif
