// SPDX-License-Identifier: MIT
// The predictor that serves each encoder: it equals the sequence form, its bits depend
// on a sequence and its mask alone, and masks and maps are as documented.
#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "base/error.h"
#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/sequence/make_model.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

constexpr int64_t kPredictorBatch = 3;
constexpr int64_t kPredictorTime = 9;

std::vector<uint8_t> Bytes(const at::Tensor& mask) {
  const at::Tensor flat = mask.to(at::kByte).contiguous();
  return {flat.data_ptr<uint8_t>(), flat.data_ptr<uint8_t>() + flat.numel()};
}

class PredictorTest : public testing::TestWithParam<ModelConfig> {
 protected:
  const ModelConfig& config() const { return GetParam(); }
  Predictor::Output MustPredict(const Predictor::Input& input) {
    absl::StatusOr<Predictor::Output> output = predictor_->Predict(input);
    EXPECT_TRUE(output.ok()) << output.status();
    return *std::move(output);
  }
  at::Tensor AsTensor(const UnsetFloats& values, at::IntArrayRef shape) const {
    at::Tensor tensor = at::empty(shape);
    EXPECT_EQ(static_cast<int64_t>(values.size()), tensor.numel());
    if (static_cast<int64_t>(values.size()) != tensor.numel()) return tensor;
    std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
    return tensor;
  }
  at::Tensor Logits(const Predictor::Output& output) const {
    return AsTensor(output.logits, {kPredictorBatch, kPredictorTime, config().vocab});
  }
  at::Tensor Map(const Predictor::Output& output, size_t layer) const {
    return AsTensor(output.maps.at(layer),
                    {kPredictorBatch, config().heads, kPredictorTime, kPredictorTime});
  }

  const std::unique_ptr<Model> model_ = MakeTestModel(GetParam());
  const std::unique_ptr<Predictor> predictor_ = *MakePredictor(*model_);
  const at::Tensor tokens_ = RandomTokens(GetParam(), kPredictorBatch, kPredictorTime);
  const std::vector<int32_t> ids_ = Ids(tokens_);
};

TEST_P(PredictorTest, EqualsTheSequenceForm) {
  for (const AttentionMaps maps :
       {AttentionMaps::kNone, AttentionMaps::kUsed, AttentionMaps::kNotebook}) {
    const ForwardResult expected = MustForward(*model_, tokens_, {}, {.maps = maps});
    const Predictor::Output output =
        MustPredict({.tokens = ids_, .batch = kPredictorBatch, .maps = maps});
    EXPECT_LE(RelativeDifference(Logits(output), expected.logits), 2e-5);
    ASSERT_EQ(output.maps.size(), expected.maps.size());
    const size_t layers = maps == AttentionMaps::kNone ? 0 : config().layers;
    ASSERT_EQ(output.maps.size(), layers);
    for (size_t i = 0; i < layers; ++i) {
      EXPECT_LE(RelativeDifference(Map(output, i), expected.maps[i]), 2e-5);
      EXPECT_LE(RelativeDifference(
                    Map(output, i).sum(-1),
                    at::ones({kPredictorBatch, config().heads, kPredictorTime})),
                1e-6);
    }
  }
}

TEST_P(PredictorTest, SameBitsAloneAndBatchedWithAnyThreads) {
  const Predictor::Output together = MustPredict(
      {.tokens = ids_, .batch = kPredictorBatch, .maps = AttentionMaps::kUsed});
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const std::unique_ptr<Predictor> other = *MakePredictor(*model_, {.pool = &pool});
    Predictor::Output joined;
    joined.maps.resize(together.maps.size());
    for (int64_t row = 0; row < kPredictorBatch; ++row) {
      const Predictor::Output alone =
          MustPredict({.tokens = {ids_.begin() + row * kPredictorTime,
                                  ids_.begin() + (row + 1) * kPredictorTime},
                       .batch = 1,
                       .maps = AttentionMaps::kUsed});
      joined.logits.insert(joined.logits.end(), alone.logits.begin(),
                           alone.logits.end());
      for (size_t i = 0; i < alone.maps.size(); ++i) {
        joined.maps[i].insert(joined.maps[i].end(), alone.maps[i].begin(),
                              alone.maps[i].end());
      }
    }
    EXPECT_EQ(joined.logits, together.logits);
    EXPECT_EQ(joined.maps, together.maps);
  }
}

// Groups of many short sequences, and predictions that take turns.
TEST_P(PredictorTest, SameBitsInAGroupAndBesideAnotherPrediction) {
  const Predictor::Output expected =
      MustPredict({.tokens = ids_, .batch = kPredictorBatch});
  std::vector<int32_t> many;
  constexpr int64_t kTimes = 40;
  for (int64_t i = 0; i < kTimes; ++i)
    many.insert(many.end(), ids_.begin(), ids_.end());
  auto long_one =
      *predictor_->Begin({.tokens = many, .batch = kTimes * kPredictorBatch});
  auto short_one = *predictor_->Begin({.tokens = ids_, .batch = kPredictorBatch});
  for (bool long_done = false, short_done = false; !long_done || !short_done;) {
    if (!long_done) long_done = *long_one->Advance();
    if (!short_done) short_done = *short_one->Advance();
  }
  EXPECT_EQ(short_one->TakeOutput().logits, expected.logits);
  const UnsetFloats all = long_one->TakeOutput().logits;
  for (int64_t i = 0; i < kTimes; ++i) {
    const auto from = all.begin() + i * static_cast<int64_t>(expected.logits.size());
    EXPECT_TRUE(std::equal(expected.logits.begin(), expected.logits.end(), from)) << i;
  }
}

TEST_P(PredictorTest, EveryTargetAndPrecisionEqualsTheSequenceForm) {
  const ForwardResult expected = MustForward(*model_, tokens_);
  for (const std::string& target : CpuTargets()) {
    for (const WeightFormat format :
         {WeightFormat::kFp32, WeightFormat::kBf16, WeightFormat::kInt8}) {
      const auto predictor =
          *MakePredictor(*model_, {.format = format, .target = target});
      const auto output =
          predictor->Predict({.tokens = ids_, .batch = kPredictorBatch});
      ASSERT_TRUE(output.ok()) << output.status();
      EXPECT_LE(RelativeDifference(Logits(*output), expected.logits),
                format == WeightFormat::kFp32 ? 2e-5 : 5e-2)
          << target;
    }
  }
}

TEST_P(PredictorTest, MasksByNameEqualMasksWrittenOut) {
  const at::Tensor all = at::ones({kPredictorTime, kPredictorTime}, at::kByte);
  const auto predict = [&](PredictMask kind, const std::vector<uint8_t>& bytes = {}) {
    return Logits(MustPredict({.tokens = ids_,
                               .batch = kPredictorBatch,
                               .mask = kind,
                               .explicit_mask = bytes}));
  };
  const std::vector<uint8_t> none = Bytes(all), causal = Bytes(all.tril());
  std::vector<uint8_t> causal_each;
  for (int64_t b = 0; b < kPredictorBatch; ++b) {
    causal_each.insert(causal_each.end(), causal.begin(), causal.end());
  }
  const at::Tensor with_none = predict(PredictMask::kNone);
  const at::Tensor with_causal = predict(PredictMask::kCausal);
  EXPECT_GT(RelativeDifference(with_none, with_causal), 1e-2);
  EXPECT_LE(RelativeDifference(predict(PredictMask::kExplicit, none), with_none), 2e-5);
  EXPECT_LE(RelativeDifference(predict(PredictMask::kExplicit, causal), with_causal),
            2e-5);
  EXPECT_TRUE(predict(PredictMask::kExplicit, causal)
                  .equal(predict(PredictMask::kExplicit, causal_each)));
  EXPECT_TRUE(predict(PredictMask::kConfig)
                  .equal(config().mask == Mask::kCausal ? with_causal : with_none));
}

TEST_P(PredictorTest, AnExplicitMaskHidesATokenFromItsSequenceAlone) {
  // Nobody but itself sees token 4 of sequence 1.
  at::Tensor mask =
      at::ones({kPredictorBatch, kPredictorTime, kPredictorTime}, at::kByte);
  mask[1].select(1, 4).fill_(0);
  mask[1][4][4] = 1;
  const std::vector<uint8_t> bytes = Bytes(mask);
  at::Tensor changed = tokens_.clone();
  for (const int64_t b : {0, 1}) {
    changed[b][4] = (tokens_[b][4] + 1).remainder(config().vocab);
  }
  const std::vector<int32_t> changed_ids = Ids(changed);
  const auto predict = [&](const std::vector<int32_t>& ids) {
    return Logits(MustPredict({.tokens = ids,
                               .batch = kPredictorBatch,
                               .mask = PredictMask::kExplicit,
                               .explicit_mask = bytes}));
  };
  const at::Tensor difference = (predict(ids_) - predict(changed_ids)).abs().amax(-1);
  for (int64_t t = 0; t < kPredictorTime; ++t) {
    EXPECT_GT(difference[0][t].item<float>(), 0.0f) << t;
    EXPECT_EQ(difference[1][t].item<float>() > 0.0f, t == 4) << t;
    EXPECT_EQ(difference[2][t].item<float>(), 0.0f) << t;
  }
}

TEST_P(PredictorTest, APositionThatSeesNothingHasAnEmptyMapAndFiniteLogits) {
  at::Tensor mask = at::ones({kPredictorTime, kPredictorTime}, at::kByte);
  mask[2].fill_(0);
  const std::vector<uint8_t> bytes = Bytes(mask);
  for (const AttentionMaps maps : {AttentionMaps::kUsed, AttentionMaps::kNotebook}) {
    const Predictor::Output output = MustPredict({.tokens = ids_,
                                                  .batch = kPredictorBatch,
                                                  .mask = PredictMask::kExplicit,
                                                  .explicit_mask = bytes,
                                                  .maps = maps});
    EXPECT_TRUE(Logits(output).isfinite().all().item<bool>());
    for (size_t i = 0; i < output.maps.size(); ++i) {
      EXPECT_TRUE(Map(output, i).select(2, 2).eq(0.0f).all().item<bool>());
      EXPECT_LE(RelativeDifference(Map(output, i).select(2, 1).sum(-1),
                                   at::ones({kPredictorBatch, config().heads})),
                1e-6);
    }
  }
}

TEST_P(PredictorTest, WithoutPositionsASequenceIsASet) {
  if (config().position_kind != PositionKind::kNone || config().mask != Mask::kNone) {
    return;
  }
  const Predictor::Output forwards =
      MustPredict({.tokens = ids_, .batch = kPredictorBatch});
  const std::vector<int32_t> reversed = Ids(tokens_.flip(1));
  const Predictor::Output backwards =
      MustPredict({.tokens = reversed, .batch = kPredictorBatch});
  EXPECT_LE(RelativeDifference(Logits(backwards).flip(1), Logits(forwards)), 2e-5);
}

// Linear biases look the same from both sides.
TEST_P(PredictorTest, AlibiDependsOnTheDistanceAlone) {
  if (config().position_kind != PositionKind::kAlibi || config().mask != Mask::kNone) {
    return;
  }
  const Predictor::Output forwards =
      MustPredict({.tokens = ids_, .batch = kPredictorBatch});
  const std::vector<int32_t> reversed = Ids(tokens_.flip(1));
  const Predictor::Output backwards =
      MustPredict({.tokens = reversed, .batch = kPredictorBatch});
  EXPECT_LE(RelativeDifference(Logits(backwards).flip(1), Logits(forwards)), 2e-5);
  // Not a set: the order of two tokens reaches a third.
  std::vector<int32_t> one = ids_, other = ids_;
  one[0] = other[1] = 0;
  one[1] = other[0] = 1;
  const at::Tensor difference =
      Logits(MustPredict({.tokens = one, .batch = kPredictorBatch})) -
      Logits(MustPredict({.tokens = other, .batch = kPredictorBatch}));
  EXPECT_GT(difference[0][5].abs().max().item<float>(), 1e-4f);
}

TEST_P(PredictorTest, BadInputsAreRefused) {
  const auto code = [&](const Predictor::Input& input) {
    return predictor_->Predict(input).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code({.tokens = {}, .batch = 1}), invalid);
  EXPECT_EQ(code({.tokens = ids_, .batch = 0}), invalid);
  EXPECT_EQ(code({.tokens = ids_, .batch = -3}), invalid);
  EXPECT_EQ(code({.tokens = ids_, .batch = 5}), invalid);
  EXPECT_EQ(code({.tokens = ids_, .batch = 1000}), invalid);
  for (const int64_t token : {int64_t{-1}, config().vocab, int64_t{INT32_MAX}}) {
    std::vector<int32_t> bad = ids_;
    bad[kPredictorTime + 2] = static_cast<int32_t>(token);
    const absl::Status status =
        predictor_->Predict({.tokens = bad, .batch = kPredictorBatch}).status();
    EXPECT_EQ(status.code(), invalid);
    EXPECT_NE(status.message().find("sequence 1 at position 2"), std::string::npos);
  }
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{kPredictorTime * kPredictorTime + 1},
        size_t{2 * kPredictorTime * kPredictorTime}}) {
    const std::vector<uint8_t> mask(size, 1);
    EXPECT_EQ(code({.tokens = ids_,
                    .batch = kPredictorBatch,
                    .mask = PredictMask::kExplicit,
                    .explicit_mask = mask}),
              invalid);
  }
  const std::vector<uint8_t> mask(kPredictorTime * kPredictorTime, 1);
  EXPECT_EQ(code({.tokens = ids_, .batch = kPredictorBatch, .explicit_mask = mask}),
            invalid);
  const std::vector<int32_t> longer(predictor_->max_positions() + 1, 0);
  const absl::Status status =
      predictor_->Predict({.tokens = longer, .batch = 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(status)->reason, "CONTEXT_LIMIT");
}

// A model whose rows take so much that one sequence is many pieces.
TEST(PredictionPieces, TogetherEqualTheSequenceForm) {
  const ModelConfig config{.architecture = "encoder",
                           .d_model = 256,
                           .heads = 4,
                           .layers = 2,
                           .d_ff = 1024,
                           .vocab = 7,
                           .positions = 600};
  const std::unique_ptr<Model> model = MakeTestModel(config);
  const std::unique_ptr<Predictor> predictor = *MakePredictor(*model);
  const std::vector<int32_t> ids = Ids(RandomTokens(config, 1, 600));
  auto prediction = *predictor->Begin({.tokens = ids, .batch = 1});
  int64_t pieces = 1;
  while (!*prediction->Advance()) ++pieces;
  EXPECT_GT(pieces, 10);
  const UnsetFloats once = prediction->TakeOutput().logits;
  const ForwardResult expected =
      MustForward(*model, RandomTokens(config, 1, 600), {}, {});
  for (size_t i = 0; i < once.size(); ++i) {
    ASSERT_NEAR(once[i], expected.logits.data_ptr<float>()[i], 2e-3) << i;
  }
}

TEST_P(PredictorTest, NamesItsNumerics) {
  EXPECT_EQ(predictor_->numerics_id(), "step/fp32/r" + std::to_string(kKernelRevision));
  EXPECT_EQ(predictor_->model(), model_->description());
}

INSTANTIATE_TEST_SUITE_P(Variants, PredictorTest,
                         testing::ValuesIn(EncoderKindVariants()), VariantName);

}  // namespace
}  // namespace mnemon
