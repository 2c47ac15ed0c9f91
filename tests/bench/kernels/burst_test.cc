// SPDX-License-Identifier: MIT
#include "bench/kernels/burst.h"

#include <algorithm>
#include <cmath>

#include "bench/kernels/probe.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(Burst, IsARateOfAllThreads) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kInt8}) {
    for (const int threads : {1, 2}) {
      ThreadPool pool(threads);
      Burst burst(&pool, format);
      for (int i = 0; i < 20; ++i) burst.Run();
      // The best of some: what else runs takes the whole of a short one.
      double probed = 0;
      for (int i = 0; i < 20; ++i) {
        probed =
            std::max(probed, (format == WeightFormat::kInt8 ? ProbeInt8 : ProbeFma)(
                                 1, std::chrono::milliseconds(10)));
      }
      // Beside other work: each of the threads may find a better moment than the probe.
      EXPECT_GT(burst.rate(), 0.05 * probed) << threads;
      EXPECT_LT(burst.rate(), 3 * threads * probed) << threads;
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
