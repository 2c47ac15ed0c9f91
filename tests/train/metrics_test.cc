// SPDX-License-Identifier: MIT
#include "train/metrics.h"

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace mnemon {
namespace {

std::string Content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(Metrics, RowsAreCutBackToTheCheckpoint) {
  const std::string path = testing::TempDir() + "/metrics_test.csv";
  std::remove(path.c_str());
  const MetricsRow row = {
      .step = 10, .loss = 1.0 / 3, .learning_rate = 1e-3, .gradient_norm = 2};
  int64_t bytes = 0;
  std::string kept;
  {
    auto metrics = MetricsFile::Open(path, 0);
    ASSERT_TRUE(metrics.ok()) << metrics.status();
    ASSERT_TRUE(metrics->Append(row).ok());
    ASSERT_TRUE(metrics->Sync().ok());
    bytes = metrics->bytes();
    kept = Content(path);
    EXPECT_EQ(kept,
              "step,loss,validation,learning_rate,gradient_norm,accuracy\n"
              "10,0.333333333,,0.001,2,\n");
    EXPECT_EQ(bytes, static_cast<int64_t>(kept.size()));
    MetricsRow more = row;
    more.validation = 2.5;
    ASSERT_TRUE(metrics->Append(more).ok());
    more.accuracy = 0.75;
    EXPECT_TRUE(metrics->Append(more).ok());
    EXPECT_EQ(Content(path), kept +
                                 "10,0.333333333,2.5,0.001,2,\n"
                                 "10,0.333333333,2.5,0.001,2,0.75\n");
  }
  { ASSERT_TRUE(MetricsFile::Open(path, bytes).ok()); }
  EXPECT_EQ(Content(path), kept);
  EXPECT_EQ(MetricsFile::Open(path, bytes + 1).status().code(),
            absl::StatusCode::kDataLoss);
  { ASSERT_TRUE(MetricsFile::Open(path, 0).ok()); }
  EXPECT_EQ(Content(path),
            "step,loss,validation,learning_rate,gradient_norm,accuracy\n");
}

TEST(Metrics, AFullDiskIsAnError) {
  auto metrics = MetricsFile::Open("/dev/full", 0);
  EXPECT_EQ(metrics.status().code(), absl::StatusCode::kInternal)
      << "a device cannot be cut";
}

}  // namespace
}  // namespace mnemon
