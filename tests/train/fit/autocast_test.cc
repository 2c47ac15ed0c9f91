// SPDX-License-Identifier: MIT
// Training in bfloat16: products are narrow, and what must stay float32 does.
#include "train/fit/autocast.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones_like.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/fast_weights/delta_rule_torch.h"
#include "tests/model/decoder/variants.h"
#include "train/data/text_task.h"
#include "train/fit/learner.h"

namespace mnemon {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kTime = 6;
constexpr double kBar = 0.05;

using Gradients = std::vector<std::pair<std::string, at::Tensor>>;

at::Tensor NormalFloats(at::IntArrayRef shape, uint64_t seed) {
  return Normal(shape, seed).to(at::kFloat);
}

// Wide enough that sums over a head's features are not close to zero: fast weights
// divide by them.
std::vector<ModelConfig> WideVariants() {
  std::vector<ModelConfig> variants = AllVariants();
  for (ModelConfig& config : variants) {
    config.d_model *= 4;
    config.d_ff *= 4;
  }
  return variants;
}

// |a - b| / |b|
double Distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

std::string WideVariantName(const testing::TestParamInfo<ModelConfig>& info) {
  return info.param.architecture + "_" + std::to_string(info.index);
}

class AutocastTest : public testing::TestWithParam<ModelConfig> {
 protected:
  AutocastTest() { RequireGradients(*model_, true); }

  ForwardResult Run(Precision precision, const at::Tensor& tokens,
                    const Carry& carry = {}) const {
    const Autocast autocast(precision, at::kCPU);
    return MustForward(*model_, tokens, carry, {.dropout = DropoutKey{.key = 5}});
  }

  // Gradients of the cross-entropy after two segments, the second with the first's
  // carry.
  Gradients Differentiate(Precision precision, const at::Tensor& tokens) const {
    const bool continues = Autoregressive(GetParam());
    const int64_t first = continues ? kTime / 2 : kTime;
    ForwardResult result = Run(precision, tokens.narrow(1, 0, first));
    if (continues) {
      result = Run(precision, tokens.narrow(1, first, kTime - first), result.carry);
    }
    const at::Tensor logits = result.logits.flatten(0, 1).to(at::kFloat);
    at::cross_entropy_loss(logits, tokens.narrow(1, 0, first).flatten()).backward();
    Gradients gradients;
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      if (weight.grad().defined()) gradients.emplace_back(name, weight.grad().clone());
      weight.mutable_grad().reset();
    });
    return gradients;
  }

  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam());
  const at::Tensor tokens_ = RandomTokens(GetParam(), kBatch, kTime);
};

TEST_P(AutocastTest, LogitsAreThoseOfFloat32ButForRounding) {
  const at::Tensor wide = Run(Precision::kFp32, tokens_).logits;
  const at::Tensor narrow = Run(Precision::kBf16, tokens_).logits;
  EXPECT_EQ(wide.scalar_type(), at::kFloat);
  const double distance = Distance(narrow, wide);
  EXPECT_GT(distance, 1e-4);
  EXPECT_LT(distance, kBar);
}

TEST_P(AutocastTest, CarriesAreFloat32) {
  if (!Autoregressive(GetParam())) return;
  Carry wide, narrow;
  for (int segment = 0; segment < 2; ++segment) {
    wide = Run(Precision::kFp32, tokens_, wide).carry;
    narrow = Run(Precision::kBf16, tokens_, narrow).carry;
    for (size_t i = 0; i < wide.tensors.size(); ++i) {
      EXPECT_EQ(narrow.tensors[i].scalar_type(), at::kFloat);
      EXPECT_LT(Distance(narrow.tensors[i], wide.tensors[i]), kBar) << segment;
    }
  }
}

// The recurrence of feedback is computed without autocast as a whole.
TEST_P(AutocastTest, FeedbackRemembersTheSameBits) {
  if (GetParam().architecture != "feedback") return;
  const Carry first = Run(Precision::kFp32, tokens_).carry;
  EXPECT_TRUE(Run(Precision::kBf16, tokens_, first)
                  .carry.tensors[0]
                  .equal(Run(Precision::kFp32, tokens_, first).carry.tensors[0]));
}

TEST_P(AutocastTest, GradientsAreFloat32AndCloseToThoseOfFloat32) {
  const Gradients wide = Differentiate(Precision::kFp32, tokens_);
  const Gradients narrow = Differentiate(Precision::kBf16, tokens_);
  ASSERT_EQ(narrow.size(), wide.size());
  std::vector<at::Tensor> all_wide, all_narrow;
  for (size_t i = 0; i < wide.size(); ++i) {
    const auto& [name, gradient] = narrow[i];
    EXPECT_EQ(name, wide[i].first);
    EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name;
    all_wide.push_back(wide[i].second.flatten());
    all_narrow.push_back(gradient.flatten());
  }
  const double distance = Distance(at::cat(all_narrow), at::cat(all_wide));
  EXPECT_GT(distance, 1e-4);
  EXPECT_LT(distance, 3 * kBar);  // some features of fast weights and ReLUs switch
}

INSTANTIATE_TEST_SUITE_P(Every, AutocastTest, testing::ValuesIn(WideVariants()),
                         WideVariantName);

TEST(Autocast, EndsWithItsScope) {
  const at::Tensor a = NormalFloats({8, 8}, 1), b = NormalFloats({8, 8}, 2);
  const at::Tensor product = at::mm(a, b);
  {
    const Autocast autocast(Precision::kBf16, at::kCPU);
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
  }
  EXPECT_TRUE(at::mm(a, b).equal(product));
  const Autocast none(Precision::kFp32, at::kCPU);
  EXPECT_TRUE(at::mm(a, b).equal(product));
}

TEST(Autocast, NormsSoftmaxAndMasksOfDropoutAreFloat32) {
  const at::Tensor x = NormalFloats({2, 4, 8}, 1).to(at::kBFloat16);
  const Autocast autocast(Precision::kBf16, at::kCPU);
  EXPECT_EQ(AttentionWeights(x, x, {}).scalar_type(), at::kFloat);
  const Affine norm = {.weight = NormalFloats({8}, 2), .bias = NormalFloats({8}, 3)};
  EXPECT_EQ(LayerNorm(x, norm).scalar_type(), at::kFloat);
  const at::Tensor kept =
      Dropout(0.1, DropoutKey{}, 2)(at::ones_like(x), DropoutKind::kHidden);
  EXPECT_TRUE(kept.eq(0).logical_or(kept.gt(1.1109)).all().item<bool>());
}

TEST(Autocast, FastWeightsAreUpdatedWithoutIt) {
  const auto run = [](Precision precision, const at::Tensor& beta) {
    FastWeightState state{.w = NormalFloats({3, 4, 8}, 1),
                          .z = NormalFloats({3, 8}, 2).abs()};
    const Autocast autocast(precision, at::kCPU);
    const at::Tensor y = RunFastWeights({.q = NormalFloats({3, 40, 8}, 3).abs(),
                                         .k = NormalFloats({3, 40, 8}, 4).abs() / 8,
                                         .v = NormalFloats({3, 40, 4}, 5),
                                         .beta = beta},
                                        state);
    return std::vector<at::Tensor>{y, state.w, state.z};
  };
  for (const at::Tensor& beta : {at::Tensor(), NormalFloats({3, 40, 1}, 6).sigmoid()}) {
    const std::vector<at::Tensor> wide = run(Precision::kFp32, beta);
    const std::vector<at::Tensor> narrow = run(Precision::kBf16, beta);
    for (size_t i = 0; i < wide.size(); ++i) EXPECT_TRUE(narrow[i].equal(wide[i])) << i;
  }
}

// A text with something to learn.
std::unique_ptr<Task> MakeTask() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcde fgh ";
  TextParts parts;
  parts.tokenizer = *MakeCharTokenizer(text);
  parts.train = *parts.tokenizer->Encode(text);
  parts.validation.assign(parts.train.begin(), parts.train.begin() + 100);
  return MakeTextTask(std::move(parts));
}

class NarrowTraining : public testing::TestWithParam<ModelConfig> {};

TEST_P(NarrowTraining, LearnsAsFloat32Does) {
  const std::unique_ptr<Task> task = MakeTask();
  WorkerPool pool(1);
  TrainConfig config;
  config.model = GetParam();
  config.model.vocab = task->vocab();
  config.model.dropout = 0;
  config.backward = Backward::kAutograd;  // which is what narrow training is
  config.data.seq_len = kTime;
  config.data.batch = 4;
  if (Autoregressive(GetParam())) config.data.loader = LoaderKind::kSequential;
  const auto alone = MakeSingleProcess();
  const auto make = [&](Precision precision) {
    config.precision = precision;
    return Learner::Create(config, *task, pool, *alone).value();
  };
  const auto wide = make(Precision::kFp32), narrow = make(Precision::kBf16);
  const double before = narrow->Validate()->loss();
  // Validation is in float32, whatever the updates are.
  EXPECT_EQ(before, wide->Validate()->loss());
  for (int i = 0; i < 20; ++i) {
    const auto a = wide->Update(3e-3), b = narrow->Update(3e-3);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    EXPECT_NE(b->gradient_norm, a->gradient_norm) << i;
  }
  EXPECT_LT(narrow->Validate()->loss(), before - 1);
  EXPECT_NEAR(narrow->Validate()->loss(), wide->Validate()->loss(), 0.03);
}

INSTANTIATE_TEST_SUITE_P(Every, NarrowTraining, testing::ValuesIn(WideVariants()),
                         WideVariantName);

}  // namespace
}  // namespace mnemon
