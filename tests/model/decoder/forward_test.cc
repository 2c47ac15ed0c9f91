// SPDX-License-Identifier: MIT
// The sequence form of every architecture: pieces, carries, dropout, limits, learning.
#include <cmath>
#include <map>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "base/error.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

constexpr double kForwardTolerance = 2e-5;
constexpr int64_t kForwardBatch = 3;
constexpr int64_t kForwardTime = 10;

class ForwardTest : public testing::TestWithParam<ModelConfig> {
 protected:
  const ModelConfig& config() const { return GetParam(); }
  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam());
};

// What a carry is for.
class CarryTest : public ForwardTest {};

TEST_P(CarryTest, OnePieceEqualsChunksEqualsSingleTokens) {
  const int64_t time = SegmentationFree(config(), kForwardTime);
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, time);
  const ForwardResult whole = MustForward(*model_, tokens);
  std::vector<std::vector<int64_t>> splits = {std::vector<int64_t>(time, 1)};
  if (time == kForwardTime) splits.insert(splits.end(), {{3, 1, 4, 2}, {9, 1}, {1, 9}});
  for (const std::vector<int64_t>& split : splits) {
    const ForwardResult parts = MustForwardInPieces(*model_, tokens, split);
    EXPECT_LE(RelativeDifference(parts.logits, whole.logits), kForwardTolerance);
    EXPECT_EQ(parts.carry.position, time);
    ASSERT_EQ(parts.carry.tensors.size(), whole.carry.tensors.size());
    for (size_t i = 0; i < whole.carry.tensors.size(); ++i) {
      EXPECT_LE(RelativeDifference(parts.carry.tensors[i], whole.carry.tensors[i]),
                kForwardTolerance)
          << model_->carry_spec().entries[i].name;
    }
  }
}

TEST_P(CarryTest, ACarryThatWasSavedContinuesToTheBit) {
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kForwardTime);
  const ForwardResult first = MustForward(*model_, tokens.narrow(1, 0, 6));
  Carry saved{.position = first.carry.position, .tensors = {}};
  for (const at::Tensor& tensor : first.carry.tensors) {
    saved.tensors.push_back(tensor.clone());
  }
  const at::Tensor rest = tokens.narrow(1, 6, 4);
  const ForwardResult uninterrupted = MustForward(*model_, rest, first.carry);
  // What was computed since must not have reached the saved carry.
  EXPECT_TRUE(MustForward(*model_, rest, saved).logits.equal(uninterrupted.logits));
  EXPECT_TRUE(
      MustForward(*model_, rest, first.carry).logits.equal(uninterrupted.logits));
}

TEST_P(ForwardTest, LaterTokensDoNotReachEarlierLogits) {
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kForwardTime);
  at::Tensor changed = tokens.clone();
  changed.narrow(1, 7, 3).copy_((tokens.narrow(1, 7, 3) + 1).remainder(config().vocab));
  const at::Tensor a = MustForward(*model_, tokens).logits;
  const at::Tensor b = MustForward(*model_, changed).logits;
  const bool sees_all = !Autoregressive(config()) && config().mask == Mask::kNone;
  EXPECT_EQ(a.narrow(1, 0, 7).equal(b.narrow(1, 0, 7)), !sees_all);
  EXPECT_FALSE(a.narrow(1, 7, 3).equal(b.narrow(1, 7, 3)));
}

TEST_P(ForwardTest, SequencesOfABatchDoNotMix) {
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kForwardTime);
  const at::Tensor together = MustForward(*model_, tokens).logits;
  for (int64_t b = 0; b < kForwardBatch; ++b) {
    const at::Tensor alone = MustForward(*model_, tokens.narrow(0, b, 1)).logits;
    EXPECT_LE(RelativeDifference(alone, together.narrow(0, b, 1)), kForwardTolerance);
  }
}

TEST_P(CarryTest, LongSequencesEqualTheirPieces) {
  const bool endless = model_->carry_spec().max_positions() == StateSpec::kUnlimited;
  if (!endless || SegmentationFree(config(), 100) < 100) return;
  const at::Tensor tokens = RandomTokens(config(), 2, 71);
  const at::Tensor whole = MustForward(*model_, tokens).logits;
  for (const std::vector<int64_t>& split :
       {std::vector<int64_t>{33, 32, 6}, std::vector<int64_t>(71, 1)}) {
    EXPECT_LE(
        RelativeDifference(MustForwardInPieces(*model_, tokens, split).logits, whole),
        kForwardTolerance);
  }
}

TEST_P(ForwardTest, DropoutOnlyInTrainingAndFromTheKeyAlone) {
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kForwardTime);
  const auto train = [&](uint64_t seed) {
    return MustForward(*model_, tokens, {}, {.dropout = DropoutKey{.key = seed}})
        .logits;
  };
  const at::Tensor evaluated = MustForward(*model_, tokens).logits;
  EXPECT_TRUE(MustForward(*model_, tokens).logits.equal(evaluated));
  EXPECT_FALSE(train(1).equal(evaluated));
  EXPECT_TRUE(train(1).equal(train(1)));
  EXPECT_FALSE(train(1).equal(train(2)));

  // Rows computed by themselves, as those of the batch that they belong to.
  const at::Tensor last =
      MustForward(*model_, tokens.narrow(0, 1, kForwardBatch - 1), {},
                  {.dropout = DropoutKey{.key = 1, .first_row = 1}})
          .logits;
  EXPECT_LE(RelativeDifference(last, train(1).narrow(0, 1, kForwardBatch - 1)),
            kForwardTolerance);

  ModelConfig without = config();
  without.dropout = 0.0;
  const std::unique_ptr<Model> plain = MakeTestModel(without);
  EXPECT_TRUE(MustForward(*plain, tokens, {}, {.dropout = DropoutKey{.key = 1}})
                  .logits.equal(evaluated));
}

TEST_P(ForwardTest, TenTrainingStepsLowerTheLoss) {
  InitialiseWeights(*model_, Initialisation::kSane, 3);
  RequireGradients(*model_, true);
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kForwardTime + 1);
  const at::Tensor inputs = tokens.narrow(1, 0, kForwardTime);
  const at::Tensor targets = tokens.narrow(1, 1, kForwardTime).flatten();
  std::map<std::string, std::pair<at::Tensor, at::Tensor>> moments;
  double first = 0.0, last = 0.0;
  for (int t = 1; t <= 10; ++t) {
    const at::Tensor loss = at::cross_entropy_loss(
        MustForward(*model_, inputs).logits.flatten(0, 1), targets);
    last = loss.item<double>();
    if (t == 1) first = last;
    loss.backward();
    at::NoGradGuard no_grad;
    model_->Visit([&](const std::string& name, at::Tensor& weight) {
      const at::Tensor g = weight.grad();
      if (!g.defined()) return;
      auto& [m, v] = moments[name];
      if (!m.defined()) m = at::zeros_like(g), v = at::zeros_like(g);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.999).add_(g.square(), 0.001);
      weight.sub_(m / (1.0 - std::pow(0.9, t)) /
                  ((v / (1.0 - std::pow(0.999, t))).sqrt() + 1e-8) * 0.01);
      weight.mutable_grad().reset();
    });
  }
  EXPECT_LT(last, 0.9 * first);
}

TEST_P(ForwardTest, BadTokensAndCarriesAreRefused) {
  const auto error = [&](const at::Tensor& tokens, const Carry& carry = {}) {
    return model_->Forward(tokens, carry).status();
  };
  const at::Tensor good = RandomTokens(config(), kForwardBatch, 4);
  for (const int64_t token : {int64_t{-1}, config().vocab, INT64_MAX, INT64_MIN}) {
    at::Tensor bad = good.clone();
    bad[1][2] = token;
    const absl::Status status = error(bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(std::to_string(token)), std::string::npos);
  }
  EXPECT_EQ(error(at::Tensor()).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error(good[0]).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error(good.to(at::kFloat)).code(), absl::StatusCode::kInvalidArgument);
  for (const auto& [b, t] : {std::pair{0, 4}, std::pair{3, 0}}) {
    EXPECT_EQ(error(at::zeros({b, t}, at::kLong)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  Carry carry = MustForward(*model_, good).carry;
  EXPECT_EQ(carry.fresh(), !Autoregressive(config()));
  if (!carry.tensors.empty()) {
    EXPECT_EQ(error(good.narrow(0, 0, 2), carry).code(),
              absl::StatusCode::kInvalidArgument);
    carry.tensors.pop_back();
  } else {
    carry.tensors.push_back(at::zeros({kForwardBatch, 1}));
  }
  EXPECT_EQ(error(good, carry).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error(good, {.position = -1, .tensors = {}}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(CarryTest, MasksAndMapsOfTheNotebookAreForEncoders) {
  const at::Tensor tokens = RandomTokens(config(), 1, 4);
  for (const ForwardOptions& options :
       {ForwardOptions{.mask = at::zeros({4, 4})},
        ForwardOptions{.maps = AttentionMaps::kNotebook}}) {
    EXPECT_EQ(model_->Forward(tokens, {}, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// The second call begins after `first` tokens and also has their keys.
TEST_P(CarryTest, MapsShowWhatEachPositionSees) {
  constexpr int64_t kFirst = 3, kSecond = 4;
  const ForwardOptions options{.maps = AttentionMaps::kUsed};
  const at::Tensor tokens = RandomTokens(config(), kForwardBatch, kFirst + kSecond);
  if (config().architecture == "fast_weights") {
    EXPECT_EQ(model_->Forward(tokens, {}, options).status().code(),
              absl::StatusCode::kInvalidArgument);
    return;
  }
  const bool feedback = config().architecture == "feedback";
  const ForwardResult first =
      MustForward(*model_, tokens.narrow(1, 0, kFirst), {}, options);
  const ForwardResult second =
      MustForward(*model_, tokens.narrow(1, kFirst, kSecond), first.carry, options);
  EXPECT_TRUE(MustForward(*model_, tokens.narrow(1, 0, kFirst)).maps.empty());
  ASSERT_EQ(second.maps.size(), static_cast<size_t>(config().layers));
  for (const auto& [maps, time] :
       {std::pair(first.maps, kFirst), {second.maps, kSecond}}) {
    for (const at::Tensor& map : maps) {
      const int64_t keys = map.size(3);
      ASSERT_EQ(map.sizes().vec(),
                (std::vector<int64_t>{kForwardBatch, config().heads, time, keys}));
      EXPECT_GE(keys, time);
      for (int64_t i = 0; i < time; ++i) {
        const int64_t seen = keys - time + i + (feedback ? 0 : 1);
        const at::Tensor row = map.select(2, i);
        const double sum = seen == 0 ? 0 : 1;
        EXPECT_LE((row.sum(-1) - sum).abs().max().item<double>(), 1e-5) << i;
        EXPECT_EQ(row.narrow(2, seen, keys - seen).abs().sum().item<double>(), 0) << i;
      }
    }
  }
}

// Tokens in one call, or over all calls, that the model has positions for.
int64_t LongestCall(const Model& model, const ModelConfig& config) {
  if (!Autoregressive(config)) return config.positions;
  if (SegmentationFree(config, INT64_MAX) != INT64_MAX) return config.positions + 1;
  return model.carry_spec().max_positions();
}

TEST_P(ForwardTest, TheContextLimitIsExactAndRefused) {
  const int64_t limit = LongestCall(*model_, config());
  if (limit == StateSpec::kUnlimited) return;
  const auto check_refused = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    ASSERT_TRUE(GetErrorDetail(status));
    EXPECT_EQ(GetErrorDetail(status)->reason, "CONTEXT_LIMIT");
  };
  const at::Tensor tokens = RandomTokens(config(), 1, limit + 1);
  const ForwardResult full = MustForward(*model_, tokens.narrow(1, 0, limit));
  EXPECT_TRUE(full.logits.isfinite().all().item<bool>());
  check_refused(model_->Forward(tokens, {}).status());
  if (model_->carry_spec().growth() == Growth::kAppend) {
    check_refused(model_->Forward(tokens.narrow(1, limit, 1), full.carry).status());
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, ForwardTest, testing::ValuesIn(AllVariants()),
                         VariantName);
INSTANTIATE_TEST_SUITE_P(Variants, CarryTest,
                         testing::ValuesIn(AutoregressiveVariants()), VariantName);

}  // namespace
}  // namespace mnemon
