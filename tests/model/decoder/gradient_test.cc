// SPDX-License-Identifier: MIT
// Gradients of every architecture, in float64.
#include <cmath>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

constexpr int64_t kGradientBatch = 2;
constexpr int64_t kGradientTime = 10;
// Step of finite differences; below the 1e-6 that normalisers of fast weights add.
constexpr double kStep = 1e-7;

using Gradients = std::map<std::string, at::Tensor>;

class GradientTest : public testing::TestWithParam<ModelConfig> {
 protected:
  GradientTest() {
    CastWeights(*model_, at::kDouble);
    RequireGradients(*model_, true);
  }

  const ModelConfig& config() const { return GetParam(); }

  // A smooth function of all logits.
  at::Tensor Loss(const at::Tensor& logits, uint64_t seed = 9) const {
    const at::Tensor direction =
        at::empty_like(logits.detach()).normal_(0.0, 1.0, MakeGenerator(seed));
    return (logits * direction).sum() + 0.1 * logits.square().sum();
  }

  // The gradients that backward passes have left, taken away from the weights.
  Gradients Take() const {
    Gradients gradients;
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      if (weight.grad().defined()) gradients[name] = weight.grad().clone();
      weight.mutable_grad().reset();
    });
    return gradients;
  }

  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam());
};

class CarryGradientTest : public GradientTest {};

void ExpectEqual(const Gradients& a, const Gradients& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, gradient] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    EXPECT_LE(RelativeDifference(gradient, b.at(name)), tolerance) << name;
  }
}

// Along one random direction per weight, with dropout at work; an encoder also under a
// mask that hides everything from two positions.
TEST_P(GradientTest, EqualFiniteDifferences) {
  const at::Tensor tokens = RandomTokens(config(), kGradientBatch, kGradientTime);
  at::Tensor mask;
  if (!Autoregressive(config())) {
    mask = Normal({kGradientBatch, kGradientTime, kGradientTime}, 6).gt(0);
    mask[0][3].fill_(false);
    mask[1][0].fill_(false);
  }
  const auto loss = [&] {
    return Loss(MustForward(*model_, tokens, {},
                            {.dropout = DropoutKey{.key = 5}, .mask = mask})
                    .logits);
  };
  loss().backward();
  const Gradients gradients = Take();
  at::NoGradGuard no_grad;
  uint64_t seed = 100;
  model_->Visit([&](const std::string& name, at::Tensor& weight) {
    const at::Tensor direction =
        at::empty_like(weight).normal_(0.0, 1.0, MakeGenerator(++seed));
    const at::Tensor original = weight.clone();
    const auto at_offset = [&](double offset) {
      weight.copy_(original + direction * offset);
      return loss().item<double>();
    };
    const double numeric = (at_offset(kStep) - at_offset(-kStep)) / (2.0 * kStep);
    weight.copy_(original);
    const auto found = gradients.find(name);
    const double exact = found == gradients.end()
                             ? 0.0
                             : (found->second * direction).sum().item<double>();
    EXPECT_NEAR(numeric, exact, 1e-5 * (1.0 + std::abs(exact))) << name;
  });
}

TEST_P(CarryGradientTest, FlowThroughTheCarry) {
  if (config().architecture == "transformer_xl") return;  // detached by definition
  const at::Tensor tokens = RandomTokens(config(), kGradientBatch, kGradientTime);
  Loss(MustForward(*model_, tokens).logits).backward();
  const Gradients whole = Take();
  for (const std::vector<int64_t>& split :
       {std::vector<int64_t>{4, 1, 5}, std::vector<int64_t>(kGradientTime, 1)}) {
    Loss(MustForwardInPieces(*model_, tokens, split).logits).backward();
    ExpectEqual(Take(), whole, 1e-11);
  }
}

TEST_P(CarryGradientTest, ReachTheIncomingCarry) {
  if (config().architecture == "transformer_xl") return;
  const at::Tensor tokens = RandomTokens(config(), kGradientBatch, kGradientTime);
  Carry carry = MustForward(*model_, tokens.narrow(1, 0, 5)).carry.Detached();
  for (at::Tensor& tensor : carry.tensors) {
    // Away from zero, where normalisers would be ill-conditioned.
    tensor = (tensor + 0.5).set_requires_grad(true);
  }
  const at::Tensor rest = tokens.narrow(1, 5, 5);
  Loss(MustForward(*model_, rest, carry).logits).backward();
  at::NoGradGuard no_grad;
  for (at::Tensor& tensor : carry.tensors) {
    ASSERT_TRUE(tensor.grad().defined());
    const at::Tensor direction =
        at::empty_like(tensor).normal_(0.0, 1.0, MakeGenerator(8));
    const at::Tensor original = tensor.clone();
    const auto at_offset = [&](double offset) {
      tensor.copy_(original + direction * offset);
      return Loss(MustForward(*model_, rest, carry).logits).item<double>();
    };
    const double numeric = (at_offset(kStep) - at_offset(-kStep)) / (2.0 * kStep);
    tensor.copy_(original);
    const double exact = (tensor.grad() * direction).sum().item<double>();
    EXPECT_NEAR(numeric, exact, 1e-5 * (1.0 + std::abs(exact)));
  }
}

TEST_P(CarryGradientTest, CarryOfTransformerXlIsOutsideTheGraph) {
  if (config().architecture != "transformer_xl") return;
  const at::Tensor tokens = RandomTokens(config(), kGradientBatch, kGradientTime);
  for (const at::Tensor& tensor : MustForward(*model_, tokens).carry.tensors) {
    EXPECT_FALSE(tensor.requires_grad());
  }
}

// Sequences of one model alive together, passes interleaved and repeated.
TEST_P(GradientTest, DoNotDependOnWhatElseIsAlive) {
  const auto tokens = [&](uint64_t seed) {
    return RandomTokens(config(), kGradientBatch,
                        kGradientTime - static_cast<int64_t>(seed), seed);
  };
  std::vector<Gradients> alone;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Loss(MustForward(*model_, tokens(seed)).logits).backward();
    alone.push_back(Take());
  }
  const at::Tensor a = Loss(MustForward(*model_, tokens(0)).logits);
  const at::Tensor b = Loss(MustForward(*model_, tokens(1)).logits);
  a.backward({}, /*retain_graph=*/true);
  ExpectEqual(Take(), alone[0], 0.0);
  const at::Tensor c = Loss(MustForward(*model_, tokens(2)).logits);
  b.backward();
  ExpectEqual(Take(), alone[1], 0.0);
  a.backward({}, /*retain_graph=*/true);
  ExpectEqual(Take(), alone[0], 0.0);
  c.backward();
  ExpectEqual(Take(), alone[2], 0.0);
  a.backward();
  ExpectEqual(Take(), alone[0], 0.0);
}

bool EndsWithAny(std::string_view name, std::initializer_list<std::string_view> ends) {
  for (std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// Weights outside the graph when a fresh model computes `time` tokens.
bool TakesNoPart(const ModelConfig& config, std::string_view name, int64_t time) {
  if (config.architecture == "fast_weights") {
    return EndsWithAny(name, {"attn.norm.weight", "attn.norm.bias"});
  }
  // The first token has no memory to attend to, and its own memory is not read.
  return config.architecture == "feedback" && time == 1 &&
         (name.find(".attn.") != name.npos || name.starts_with("memory."));
}

// Weights in the graph that the logits do not depend on.
bool HasNoEffect(const ModelConfig& config, std::string_view name) {
  if (config.architecture == "causal") {
    // Adds the same to all scores of a query.
    return EndsWithAny(name, {"attn.key.bias"});
  }
  // A softmax over one key.
  return config.architecture == "transformer_xl" && config.window == Window::kSliding &&
         config.mem_len == 0 &&
         EndsWithAny(name, {"attn.query.weight", "attn.key.weight", "relative_key",
                            "relative_bias", "query_bias"});
}

TEST_P(GradientTest, ReachEveryWeightThatTakesPart) {
  for (const int64_t time : {kGradientTime, int64_t{1}}) {
    Loss(MustForward(*model_, RandomTokens(config(), kGradientBatch, time)).logits)
        .backward();
    const Gradients gradients = Take();
    model_->Visit([&](const std::string& name, at::Tensor&) {
      const bool expected = !TakesNoPart(config(), name, time);
      ASSERT_EQ(gradients.contains(name), expected) << name << " T=" << time;
      if (!expected || time == 1 || HasNoEffect(config(), name)) return;
      EXPECT_GT(gradients.at(name).abs().max().item<double>(), 1e-9) << name;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GradientTest, testing::ValuesIn(AllVariants()),
                         VariantName);
INSTANTIATE_TEST_SUITE_P(Variants, CarryGradientTest,
                         testing::ValuesIn(AutoregressiveVariants()), VariantName);

}  // namespace
}  // namespace mnemon
