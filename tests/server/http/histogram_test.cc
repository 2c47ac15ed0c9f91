// SPDX-License-Identifier: MIT
#include "server/http/histogram.h"

#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;

std::vector<uint64_t> CountsOf(const Histogram& histogram) {
  const prometheus::ClientMetric metric = histogram.Collect();
  std::vector<uint64_t> counts;
  for (const auto& bucket : metric.histogram.bucket) {
    counts.push_back(bucket.cumulative_count);
  }
  EXPECT_EQ(metric.histogram.sample_count, counts.back());
  return counts;
}

TEST(Histogram, BoundsArePartOfTheirBuckets) {
  Histogram histogram({1, 2, 5});
  for (double value : {-3.0, 0.5, 1.0, 1.001, 2.0, 5.0, 5.1, 1e300}) {
    histogram.Observe(value);
  }
  EXPECT_THAT(CountsOf(histogram), ElementsAre(3, 5, 6, 8));
  const auto metric = histogram.Collect();
  EXPECT_EQ(metric.histogram.bucket[1].upper_bound, 2);
  EXPECT_EQ(metric.histogram.bucket[3].upper_bound,
            std::numeric_limits<double>::infinity());
}

TEST(Histogram, SumsUp) {
  Histogram histogram({1});
  for (double value : {0.25, 0.5, 4.0}) histogram.Observe(value);
  EXPECT_EQ(histogram.Collect().histogram.sample_sum, 4.75);
}

TEST(Histogram, LosesNothingUnderThreads) {
  Histogram histogram({0.5, 1.5});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 20000; ++n) histogram.Observe(n % 3);
    });
  }
  for (int i = 0; i < 100; ++i) CountsOf(histogram);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(CountsOf(histogram), ElementsAre(4 * 6667, 4 * 13334, 80000));
  EXPECT_EQ(histogram.Collect().histogram.sample_sum, 4 * (6667.0 + 2 * 6666.0));
}

TEST(HistogramFamily, KeepsLabelsApart) {
  HistogramFamily family("name", "help", {1});
  Histogram& a = family.Add({{"model", "a"}});
  Histogram& b = family.Add({{"model", "b"}});
  a.Observe(1);
  b.Observe(7);
  b.Observe(8);
  const auto collected = family.Collect();
  ASSERT_EQ(collected.size(), 1u);
  EXPECT_EQ(collected[0].name, "name");
  EXPECT_EQ(collected[0].type, prometheus::MetricType::Histogram);
  ASSERT_EQ(collected[0].metric.size(), 2u);
  EXPECT_EQ(collected[0].metric[0].label[0].value, "a");
  EXPECT_EQ(collected[0].metric[0].histogram.sample_count, 1u);
  EXPECT_EQ(collected[0].metric[1].label[0].value, "b");
  EXPECT_EQ(collected[0].metric[1].histogram.sample_count, 2u);
}

}  // namespace
}  // namespace mnemon
