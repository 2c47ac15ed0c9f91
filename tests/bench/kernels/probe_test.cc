// SPDX-License-Identifier: MIT
#include "bench/kernels/probe.h"

#include <memory>

#include "bench/kernels/vector_loops.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using std::chrono::milliseconds;

TEST(VectorLoops, ReadsEveryFloat) {
  constexpr size_t kCount = 1024;
  struct alignas(64) Buffer {
    float floats[kCount];
  };
  const auto buffer = std::make_unique<Buffer>();
  float expected = 0;
  for (size_t i = 0; i < kCount; ++i) {
    buffer->floats[i] = static_cast<float>(i % 100);
    expected += buffer->floats[i];
  }
  EXPECT_EQ(ReadFloats(buffer->floats, kCount), expected);  // exact: small integers
  EXPECT_LT(ReadFloats(buffer->floats, kCount / 2), expected);
}

TEST(VectorLoops, CountsItsOperations) {
  EXPECT_GT(MultiplyAdd(1), 0);
  EXPECT_DOUBLE_EQ(MultiplyAdd(1000), 1000 * MultiplyAdd(1));
  EXPECT_GT(MultiplyAddInt8(1), 0);
  EXPECT_DOUBLE_EQ(MultiplyAddInt8(1000), 1000 * MultiplyAddInt8(1));
}

// No figure here can be wrong by itself; that they are of the size of a machine is what
// a broken unit or a loop dropped by the compiler would change.
TEST(Probe, RatesOfAMachine) {
  for (const int threads : {1, 2, 3}) {
    const double read = ProbeRead(1 << 20, threads, milliseconds(5));
    EXPECT_GT(read, 1e7) << threads;
    EXPECT_LT(read, 1e13) << threads;
    const double fma = ProbeFma(threads, milliseconds(5));
    EXPECT_GT(fma, 1e7) << threads;
    EXPECT_LT(fma, 1e13) << threads;
    const double int8 = ProbeInt8(threads, milliseconds(5));
    EXPECT_GT(int8, 1e7) << threads;
    EXPECT_LT(int8, 1e14) << threads;
  }
}

TEST(Probe, TakesBuffersOfAnySize) {
  for (const int64_t bytes : {1, 4097, 100'000}) {
    EXPECT_GT(ProbeRead(bytes, 2, milliseconds(1)), 0) << bytes;
  }
}

}  // namespace
}  // namespace mnemon
