// SPDX-License-Identifier: MIT
// The gradients and training losses of the reference implementation, by the
// hand-written passes.
#include <cmath>
#include <map>

#include <ATen/ops/empty_like.h>

#include "gtest/gtest.h"
#include "model/gradient/gradient_pass.h"
#include "model/sequence/device.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/golden_optimiser.h"

namespace mnemon {
namespace {

constexpr double kPassLossTolerance = 5e-4;

class PassGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::optional<std::string> directory = FindGolden(GetParam());
    if (!directory) {
      GTEST_SKIP() << "needs golden/" << GetParam()
                   << ": set MNEMON_TEST_DATA to the folder that holds golden/";
    }
    absl::StatusOr<GoldenCase> golden = GoldenCase::Load(*directory);
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = std::make_unique<GoldenCase>(*std::move(golden));
    model_ = *golden_->Import();
    if (!DeviceOf(*model_).is_cpu()) GTEST_SKIP() << "passes compute on the CPU";
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      layout_.Add(name, size_, weight.numel());
      size_ += (weight.numel() + 15) / 16 * 16;
    });
    pass_ = MakeGradientPass<float>(model_->description(), layout_, pool_);
    ASSERT_NE(pass_, nullptr);
  }

  // Sum over tokens begin .. begin + length - 1; adds `scale` times its gradients to
  // those of the weights.
  double Run(int64_t begin, int64_t length, double scale, PassCarry<float>& carry) {
    const auto ids = [&](const char* array) {
      const at::Tensor all =
          golden_->Get(array).narrow(1, begin, length).to(at::kInt).contiguous();
      return std::vector<int32_t>(all.data_ptr<int32_t>(),
                                  all.data_ptr<int32_t>() + all.numel());
    };
    const std::vector<int32_t> tokens = ids("tokens"), targets = ids("targets");
    std::vector<float> weights(static_cast<size_t>(size_));
    std::vector<float> gradients(static_cast<size_t>(pass_->sums_size()));
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      const at::Tensor all = weight.detach().contiguous();
      std::copy_n(all.data_ptr<float>(), all.numel(),
                  weights.begin() + layout_.At(name));
    });
    const auto loss =
        pass_->Run({.shards = Shards::Whole(golden_->Get("tokens").size(0), 2),
                    .time = length,
                    .tokens = tokens.data(),
                    .targets = targets.data(),
                    .continues = true},
                   weights.data(), gradients.data(), carry);
    EXPECT_TRUE(loss.ok()) << loss.status();
    pass_->Finish(weights.data(), gradients.data());
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      at::Tensor gradient = at::empty_like(weight.detach());
      const float* const from = gradients.data() + layout_.At(name);
      for (int64_t i = 0; i < weight.numel(); ++i) {
        gradient.data_ptr<float>()[i] = from[i] * static_cast<float>(scale);
      }
      at::NoGradGuard no_graph;
      if (weight.grad().defined()) gradient.add_(weight.grad());
      weight.mutable_grad() = gradient;
    });
    return loss.ok() ? loss->nats * scale : NAN;
  }

  // Returns the mean loss of all segments and leaves the gradients of the weights.
  double RunAll() {
    const double scale = 1.0 / static_cast<double>(golden_->Get("tokens").numel());
    PassCarry<float> carry;
    double loss = 0;
    int64_t begin = 0;
    for (const int64_t length : golden_->Segments()) {
      loss += Run(begin, length, scale, carry);
      begin += length;
    }
    return loss;
  }

  void CheckLosses(const std::string& array, const std::string& settings) {
    if (!golden_->Has(array)) return;
    const at::Tensor expected = golden_->Get(array);
    GoldenOptimiser optimiser(*model_, golden_->config()[settings]);
    for (int64_t k = 0; k < expected.numel(); ++k) {
      EXPECT_NEAR(RunAll(), expected[k].item<double>(), kPassLossTolerance)
          << array << " " << k;
      optimiser.Update();
    }
  }

  std::unique_ptr<GoldenCase> golden_;
  std::unique_ptr<Model> model_;
  FlatLayout layout_;
  int64_t size_ = 0;
  ThreadPool pool_{2};
  std::unique_ptr<GradientPass<float>> pass_;
};

TEST_P(PassGoldenTest, LossAndGradients) {
  EXPECT_NEAR(RunAll(), golden_->Get("loss").item<double>(), 2e-5);
  auto expected = golden_->Gradients();
  ASSERT_TRUE(expected.ok()) << expected.status();
  const std::map<std::string, at::Tensor> by_name(expected->begin(), expected->end());
  double squares = 0.0;
  model_->Visit([&](const std::string& name, at::Tensor& weight) {
    squares += weight.grad().square().sum().item<double>();
    const auto found = by_name.find(name);
    if (found == by_name.end()) {  // takes no part
      EXPECT_EQ(weight.grad().abs().max().item<double>(), 0) << name;
      return;
    }
    EXPECT_LE((weight.grad() - found->second).abs().max().item<double>(),
              2e-4 * found->second.abs().max().item<double>() + 1e-6)
        << name;
  });
  const double norm = golden_->Get("grad_norm").item<double>();
  EXPECT_NEAR(std::sqrt(squares), norm, 2e-4 * norm);
}

TEST_P(PassGoldenTest, TrainingLosses) { CheckLosses("train.losses", "train"); }

TEST_P(PassGoldenTest, TrainingLossesOfTheReferenceOptimiser) {
  CheckLosses("labml_train.losses", "labml_train");
}

TEST_P(PassGoldenTest, TrainingLossesUnderASchedule) {
  CheckLosses("scheduled_train.losses", "scheduled_train");
}

TEST_P(PassGoldenTest, LossesWithMemoryKeptOverUpdates) {
  if (!golden_->Has("stream.losses")) return;
  const at::Tensor expected = golden_->Get("stream.losses");
  GoldenOptimiser optimiser(*model_, golden_->config()["train"]);
  const int64_t batch = golden_->Get("tokens").size(0);
  PassCarry<float> carry;
  int64_t begin = 0, index = 0;
  for (const int64_t length : golden_->Segments()) {
    EXPECT_NEAR(Run(begin, length, 1.0 / static_cast<double>(batch * length), carry),
                expected[index++].item<double>(), kPassLossTolerance);
    optimiser.Update();
    begin += length;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PassGoldenTest, testing::ValuesIn(kGoldenCases),
                         GoldenCaseName);

}  // namespace
}  // namespace mnemon
