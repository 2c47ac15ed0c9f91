// SPDX-License-Identifier: MIT
#include "train/fit/schedule.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/io/safetensors.h"

namespace mnemon {
namespace {

constexpr char kGoldenSchedules[] =
    MNEMON_SOURCE_DIR "/tests/golden/data/schedules/io.safetensors";

// Before update `step` of `steps`.
RunPosition At(int64_t step, int64_t steps) {
  return {.step = step, .part = static_cast<double>(step) / static_cast<double>(steps)};
}

class ScheduleGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = Safetensors::Read(kGoldenSchedules);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  std::vector<float> Floats(const std::string& name) {
    return *file_.Floats(*file_.Find(name));
  }
  std::vector<int64_t> Ints(const std::string& name) {
    return *file_.Ints(*file_.Find(name));
  }
  Safetensors file_;
};

TEST_F(ScheduleGolden, Cosine) {
  struct Case {
    const char* name;
    int64_t warmup, steps;
  };
  for (const Case& c :
       {Case{"cosine.w150_n1500", 150, 1500}, Case{"cosine.w100_n4686", 100, 4686}}) {
    const ScheduleOptions options = {
        .kind = ScheduleKind::kCosine, .lr = 1.0, .warmup = c.warmup};
    const std::vector<int64_t> steps = Ints("cosine.steps");
    const std::vector<float> expected = Floats(c.name);
    ASSERT_EQ(steps.size(), expected.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(LearningRate(options, 0, At(steps[i], c.steps)), expected[i], 1e-5)
          << c.name << " at " << steps[i];
    }
  }
}

TEST_F(ScheduleGolden, Noam) {
  struct Case {
    const char* name;
    int64_t width, warmup;
  };
  for (const Case& c :
       {Case{"noam.d512_w2000", 512, 2000}, Case{"noam.d256_w2000", 256, 2000},
        Case{"noam.d128_w2000", 128, 2000}, Case{"noam.d16_w10", 16, 10}}) {
    const ScheduleOptions options = {
        .kind = ScheduleKind::kNoam, .lr = 1.0, .warmup = c.warmup};
    const std::vector<int64_t> steps = Ints("noam.steps");  // t, from 1
    const std::vector<float> expected = Floats(c.name);
    ASSERT_EQ(steps.size(), expected.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(LearningRate(options, c.width, {.step = steps[i] - 1}), expected[i],
                  1e-5)
          << c.name << " at " << steps[i];
    }
  }
}

// Section 5.1 of the reference experiments: the peak at t = 2000.
TEST(Schedule, NoamPeaks) {
  const ScheduleOptions options = {
      .kind = ScheduleKind::kNoam, .lr = 1.0, .warmup = 2000};
  EXPECT_NEAR(LearningRate(options, 512, {.step = 1999}), 9.88e-4, 1e-6);
  EXPECT_NEAR(LearningRate(options, 256, {.step = 1999}), 1.398e-3, 1e-6);
  EXPECT_NEAR(LearningRate(options, 128, {.step = 1999}), 1.976e-3, 1e-6);
}

TEST(Schedule, CosineFallsToItsLeastRatio) {
  const ScheduleOptions options = {
      .kind = ScheduleKind::kCosine, .lr = 2.0, .warmup = 10, .min_ratio = 0.1};
  EXPECT_EQ(LearningRate(options, 0, At(0, 100)), 0.0);
  EXPECT_NEAR(LearningRate(options, 0, At(100, 100)), 0.2, 1e-12);
}

TEST(Schedule, ConstantWithAndWithoutWarmUp) {
  ScheduleOptions options = {.kind = ScheduleKind::kConstant, .lr = 0.5};
  EXPECT_EQ(LearningRate(options, 0, At(0, 10)), 0.5);
  options.warmup = 4;
  EXPECT_EQ(LearningRate(options, 0, At(0, 10)), 0.125);
  EXPECT_EQ(LearningRate(options, 0, At(3, 10)), 0.5);
  EXPECT_EQ(LearningRate(options, 0, At(1000000, 10)), 0.5);
}

// Whatever the number of updates that fit.
TEST(Schedule, APartOfTimeEndsTheWarmUp) {
  ScheduleOptions options = {.kind = ScheduleKind::kConstant, .lr = 1, .warmup = 100};
  const auto at = [&](int64_t step, double part) {
    return LearningRate(options, 256,
                        {.step = step, .part = part, .part_of_time = true});
  };
  EXPECT_NEAR(at(0, 0), 0.01, 1e-12);
  EXPECT_NEAR(at(2, 0.1), 0.5, 1e-12);    // of a slow machine
  EXPECT_NEAR(at(49, 0.01), 0.5, 1e-12);  // of a fast one
  EXPECT_EQ(at(4, 0.2), 1);
  EXPECT_EQ(LearningRate(options, 256, {.step = 4, .part = 0.2}), 0.05);
  options.kind = ScheduleKind::kCosine;
  EXPECT_EQ(at(0, 0), 0);
  EXPECT_NEAR(at(4, 0.2), 0.5 * (1 + std::cos(0.2 * std::numbers::pi)), 1e-12);
  EXPECT_NEAR(at(9, 1), 0, 1e-12);
  options.kind = ScheduleKind::kNoam;
  const double peak = at(99, 0);
  EXPECT_NEAR(at(2, 0.1), peak / 2, 1e-12);
  EXPECT_NEAR(at(4, 0.2), peak, 1e-12);
  EXPECT_NEAR(at(50, 0.9), peak, 1e-12);
  EXPECT_NEAR(at(399, 0.9), peak / 2, 1e-12);
}

}  // namespace
}  // namespace mnemon
