// SPDX-License-Identifier: MIT
#include "bench/kernels/burst.h"

#include <cmath>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

// How fast a machine is at a moment is no test's to judge.
TEST(Burst, IsARateWithAnyThreads) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    for (const int threads : {1, 2}) {
      ThreadPool pool(threads);
      Burst burst(&pool, format);
      burst.Run();
      EXPECT_GT(burst.rate(), 0) << threads;
      EXPECT_TRUE(std::isfinite(burst.rate())) << threads;
    }
  }
}

TEST(Burst, DescribesWhatWasReachedOfIt) {
  ThreadPool pool(1);
  Burst burst(&pool, WeightFormat::kFp32);
  burst.Run();
  Record record;
  burst.Describe(burst.rate() * 3 / 4, 1.5, record);
  EXPECT_EQ(record.Text("sustained_share", 4), "0.5000");
  EXPECT_DOUBLE_EQ(std::get<double>(record.values()[0].second), burst.rate() / 1e9);
}

TEST(Burst, HasNoNumberWithoutThreads) {
  Burst burst(nullptr, WeightFormat::kFp32);
  burst.Run();
  EXPECT_TRUE(std::isnan(burst.rate()));
}

}  // namespace
}  // namespace mnemon
