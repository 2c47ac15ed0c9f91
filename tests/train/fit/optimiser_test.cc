// SPDX-License-Identifier: MIT
#include "train/fit/optimiser.h"

#include <string>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "gtest/gtest.h"
#include "model/io/safetensors.h"
#include "model/sequence/tensors.h"
#include "train/fit/schedule.h"

namespace mnemon {
namespace {

constexpr char kGoldenUpdates[] =
    MNEMON_SOURCE_DIR "/tests/golden/data/schedules/io.safetensors";

// The traces of reference optimisers: eight parameters, twenty gradients.
class OptimiserTrace : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = Safetensors::Read(kGoldenUpdates);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    gradients_ = Get("trace.grads");
  }
  at::Tensor Get(const std::string& name) {
    return *ToTensor(file_, *file_.Find(name));
  }

  void Follow(const std::string& name, const OptimiserOptions& options,
              const ScheduleOptions& schedule) {
    const at::Tensor expected = Get(name);
    at::Tensor values = Get("trace.param0");
    at::Tensor gradient = at::zeros({8});
    Optimiser optimiser(options, values, gradient);
    for (int64_t step = 0; step < 20; ++step) {
      gradient.copy_(gradients_.select(0, step));
      const double lr = LearningRate(schedule, 512, {.step = step});
      optimiser.BeginStep();
      // Applied in parts, in any order.
      optimiser.Apply(lr, 1.0, 3, 8);
      optimiser.Apply(lr, 1.0, 0, 3);
      for (int64_t i = 0; i < 8; ++i) {
        ASSERT_NEAR(values[i].item<float>(), expected[step][i].item<float>(), 1e-5)
            << name << " update " << step << " parameter " << i;
      }
    }
  }

  Safetensors file_;
  at::Tensor gradients_;
};

TEST_F(OptimiserTrace, Sgd) {
  Follow("trace.sgd", {.kind = OptimiserKind::kSgd}, {.lr = 0.1});
}

TEST_F(OptimiserTrace, Adam) {
  Follow("trace.torch_adam", {.kind = OptimiserKind::kAdam}, {.lr = 1e-3});
  // Without decay AdamW is Adam.
  Follow("trace.torch_adam", {.kind = OptimiserKind::kAdamw}, {.lr = 1e-3});
}

TEST_F(OptimiserTrace, AdamLabml) {
  Follow("trace.labml_adam", {.kind = OptimiserKind::kAdamLabml}, {.lr = 1e-3});
}

TEST_F(OptimiserTrace, AdamLabmlUnderNoam) {
  Follow("trace.noam", {.kind = OptimiserKind::kAdamLabml},
         {.kind = ScheduleKind::kNoam, .lr = 1.0, .warmup = 10});
}

class OneStep : public ::testing::Test {
 protected:
  // Two updates with gradient 2, from weight 1.
  float Run(const OptimiserOptions& options) {
    at::Tensor values = at::zeros({1}).fill_(1.0);
    at::Tensor gradient = at::zeros({1}).fill_(2.0);
    Optimiser optimiser(options, values, gradient);
    for (int i = 0; i < 2; ++i) {
      optimiser.BeginStep();
      optimiser.Apply(0.1, 1.0, 0, 1);
    }
    EXPECT_EQ(optimiser.steps(), 2);
    return values[0].item<float>();
  }
};

TEST_F(OneStep, MomentumAndDecay) {
  // b = 2, w = 0.8; b = 0.5 * 2 + 2 = 3, w = 0.5.
  EXPECT_NEAR(Run({.kind = OptimiserKind::kSgd, .momentum = 0.5}), 0.5f, 1e-6);
  // g = 2 + 0.5 = 2.5, w = 0.75; g = 2 + 0.375, w = 0.5125.
  EXPECT_NEAR(Run({.kind = OptimiserKind::kSgd, .weight_decay = 0.5}), 0.5125f, 1e-6);
  // A constant gradient makes every Adam update lr; decoupled decay comes before it:
  // 0.95 - 0.1 = 0.85; 0.8075 - 0.1.
  EXPECT_NEAR(Run({.kind = OptimiserKind::kAdamw, .weight_decay = 0.5}), 0.7075f, 1e-5);
  EXPECT_NEAR(Run({.kind = OptimiserKind::kAdam}), 0.8f, 1e-5);
}

TEST(Optimiser, ContinuesFromSavedBuffers) {
  at::Tensor one = at::zeros({4}), other = at::zeros({4});
  at::Tensor gradient = at::zeros({4}).fill_(0.3);
  const OptimiserOptions options = {.kind = OptimiserKind::kAdam};
  Optimiser first(options, one, gradient);
  const auto step = [&](Optimiser& optimiser) {
    optimiser.BeginStep();
    optimiser.Apply(0.01, 1.0, 0, 4);
  };
  step(first);
  gradient.fill_(-1.0);
  step(first);
  Optimiser second(options, other, gradient);
  other.copy_(one);
  const auto from = first.Buffers(), to = second.Buffers();
  ASSERT_EQ(from.size(), 2u);
  for (size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second);
  second.set_steps(first.steps());
  step(first);
  step(second);
  EXPECT_TRUE(one.equal(other));
}

}  // namespace
}  // namespace mnemon
