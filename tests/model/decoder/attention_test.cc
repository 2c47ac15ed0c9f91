// SPDX-License-Identifier: MIT
// Attention under masks of every shape, against the sums written out, and the blocks
// around it.
#include <cmath>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "gmock/gmock.h"
#include "model/blocks/attention/forward_torch.h"
#include "model/blocks/attention/score_mask_torch.h"
#include "model/blocks/ends/forward_torch.h"
#include "model/blocks/feed_forward/forward_torch.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kWidth = 12, kQueries = 5, kKeys = 7;
constexpr ScoreShape kShape{
    .batch = kBatch, .heads = kHeads, .queries = kQueries, .keys = kKeys};

// Keys and values of another length than the queries.
class AttendTest : public testing::Test {
 protected:
  static ScoreMask MustMakeMask(const at::Tensor& mask) {
    absl::StatusOr<ScoreMask> made = MakeScoreMask(mask, kShape, at::kDouble);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  Attended Found(const at::Tensor& mask, const Dropout& drop = Dropout()) const {
    return Attend(SplitHeads(query_, kHeads), SplitHeads(key_, kHeads),
                  SplitHeads(value_, kHeads), MustMakeMask(mask), drop);
  }

  // One weight after the other. bias(b, h, i, j) is added to a score.
  template <class Bias>
  void ExpectSums(const Attended& found, const Bias& bias) const {
    const at::Tensor weights = MapsOfBatch(found.weights, kHeads);
    const int64_t width = kWidth / kHeads;
    const auto head = [&](const at::Tensor& x, int64_t b, int64_t t, int64_t h) {
      return x[b][t].narrow(0, h * width, width);
    };
    at::Tensor mixed = at::zeros({kBatch, kQueries, kWidth}, at::kDouble);
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < kQueries; ++i) {
          double sum = 0.0;
          std::vector<double> weight;
          for (int64_t j = 0; j < kKeys; ++j) {
            const at::Tensor products = head(query_, b, i, h) * head(key_, b, j, h);
            weight.push_back(std::exp(products.sum().item<double>() / std::sqrt(width) +
                                      bias(b, h, i, j)));
            sum += weight.back();
          }
          for (int64_t j = 0; j < kKeys; ++j) {
            const double expected = sum == 0.0 ? 0.0 : weight[j] / sum;
            EXPECT_NEAR(weights[b][h][i][j].item<double>(), expected, 1e-12);
            mixed[b][i]
                .narrow(0, h * width, width)
                .add_(head(value_, b, j, h), expected);
          }
        }
      }
    }
    EXPECT_LE(RelativeDifference(MergeHeads(found.mixed, kHeads), mixed), 1e-12);
  }

  const at::Tensor query_ = Normal({kBatch, kQueries, kWidth}, 1);
  const at::Tensor key_ = Normal({kBatch, kKeys, kWidth}, 2);
  const at::Tensor value_ = Normal({kBatch, kKeys, kWidth}, 3);
};

double Hidden(bool takes_part) { return takes_part ? 0.0 : -INFINITY; }

TEST_F(AttendTest, WithoutAMaskEveryKeyTakesPart) {
  ExpectSums(Found({}), [](auto...) { return 0.0; });
}

TEST_F(AttendTest, MasksOfTwoThreeAndFourDimensions) {
  at::Tensor two = Normal({kQueries, kKeys}, 4).gt(0);
  two[2].fill_(false);  // sees nothing
  at::Tensor three = Normal({kBatch, kQueries, kKeys}, 5).gt(0);
  three[1][0].fill_(false);
  at::Tensor four = Normal({kBatch, kHeads, kQueries, kKeys}, 6).gt(0);
  four[0][1][4].fill_(false);
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kLong}) {
    ExpectSums(Found(two.to(type)), [&](auto, auto, int64_t i, int64_t j) {
      return Hidden(two[i][j].item<bool>());
    });
    ExpectSums(Found(three.to(type)), [&](int64_t b, auto, int64_t i, int64_t j) {
      return Hidden(three[b][i][j].item<bool>());
    });
    ExpectSums(Found(four.to(type)), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return Hidden(four[b][h][i][j].item<bool>());
    });
  }
}

TEST_F(AttendTest, AdditiveMasks) {
  at::Tensor four = 2.0 * Normal({kBatch, kHeads, kQueries, kKeys}, 7);
  four.masked_fill_(four.gt(1.0), -INFINITY);
  four[1][2][3].fill_(-INFINITY);
  for (const at::Tensor& mask : {four, four[1][2]}) {
    ExpectSums(Found(mask), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return (mask.dim() == 4 ? mask[b][h] : mask)[i][j].item<double>();
    });
  }
}

TEST_F(AttendTest, AQueryThatSeesNothingGetsZerosAndGivesNoGradient) {
  at::Tensor query = query_.clone().set_requires_grad(true);
  at::Tensor key = key_.clone().set_requires_grad(true);
  at::Tensor mask = at::ones({kQueries, kKeys}, at::kBool);
  mask[3].fill_(false);
  mask.select(1, 6).fill_(false);  // a key that nobody sees
  const Attended result =
      Attend(SplitHeads(query, kHeads), SplitHeads(key, kHeads),
             SplitHeads(value_, kHeads), MustMakeMask(mask), Dropout());
  EXPECT_TRUE(result.mixed.select(1, 3).eq(0.0).all().item<bool>());
  EXPECT_TRUE(result.weights.select(1, 3).eq(0.0).all().item<bool>());
  (result.mixed.square().sum() + result.weights.pow(3).sum()).backward();
  EXPECT_TRUE(query.grad().isfinite().all().item<bool>());
  EXPECT_TRUE(query.grad().select(1, 3).eq(0.0).all().item<bool>());
  EXPECT_TRUE(key.grad().select(1, 6).eq(0.0).all().item<bool>());
  EXPECT_GT(query.grad().select(1, 2).abs().max().item<double>(), 0.0);
}

TEST_F(AttendTest, DropoutActsOnWeightsAndNotOnTheMap) {
  const Attended plain = Found({});
  const Attended dropped = Found({}, Dropout(0.5, DropoutKey{}, kShape.batch));
  EXPECT_TRUE(dropped.weights.equal(plain.weights));
  EXPECT_FALSE(dropped.mixed.equal(plain.mixed));
}

TEST_F(AttendTest, MasksThatDoNotFitAreRefused) {
  const auto refused = [](const at::Tensor& mask) {
    const absl::Status status = MakeScoreMask(mask, kShape, at::kFloat).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), testing::HasSubstr("mask"));
  };
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{},
                                         {kKeys},
                                         {kKeys, kQueries},
                                         {1, kKeys},
                                         {kHeads, kQueries, kKeys},
                                         {kHeads, kBatch, kQueries, kKeys},
                                         {1, kBatch, kHeads, kQueries, kKeys}}) {
    refused(at::ones(shape, at::kBool));
  }
  for (const double bad : {NAN, INFINITY}) {
    at::Tensor mask = at::zeros({kQueries, kKeys});
    mask[1][1] = bad;
    refused(mask);
  }
}

// The block around it: norm, maps and the model's own mask.
class WholeTest : public testing::Test {
 protected:
  WholeTest() {
    TensorList list;
    AddTensors(attention_, "attn", kWidth, /*shared_memory=*/false, list);
    weights_.emplace(list.Take());
    uint64_t seed = 10;
    weights_->Visit([&](const std::string&, at::Tensor& tensor) {
      tensor = 0.5 * Normal(tensor.sizes(), ++seed);
    });
  }

  ScoreMask MustMakeMask(const at::Tensor& mask) const {
    absl::StatusOr<ScoreMask> made = WholeMask(attention_, mask, x_);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  // z [B, T, D].
  Attended AttendedBy(const at::Tensor& z, const ScoreMask& mask) const {
    const auto heads_of = [&](const char* base) {
      return SplitHeads(Linear(z, weights_->Map(base)), kHeads);
    };
    return Attend(heads_of("attn.query"), heads_of("attn.key"), heads_of("attn.value"),
                  mask, Dropout());
  }

  const Attention attention_{.heads = kHeads,
                             .groups = kHeads,
                             .width = kWidth / kHeads,
                             .sees = Attention::Sees::kAll};
  std::optional<NamedTensors> weights_;
  const NormTensors norm_{
      .norm = {},
      .tensors = {.weight = Normal({kWidth}, 21), .bias = Normal({kWidth}, 22)}};
  const at::Tensor x_ = Normal({kBatch, kQueries, kWidth}, 1);
};

TEST_F(WholeTest, NormsProjectsAttendsAndMerges) {
  at::Tensor hides = Normal({kQueries, kQueries}, 4).gt(0);
  hides[2].fill_(false);  // sees nothing
  for (const at::Tensor& given : {at::Tensor(), hides}) {
    const ScoreMask mask = MustMakeMask(given);
    const AttentionOutput found =
        ForwardWhole(attention_, *weights_, "attn", norm_, x_, mask, Dropout());
    const Attended expected = AttendedBy(Normed(x_, norm_), mask);
    EXPECT_LE(RelativeDifference(found.weights, MapsOfBatch(expected.weights, kHeads)),
              1e-12);
    EXPECT_LE(RelativeDifference(found.y, Linear(MergeHeads(expected.mixed, kHeads),
                                                 weights_->Map("attn.output"))),
              1e-12);
  }
}

TEST_F(WholeTest, TheNotebookMapIsOfTheInputWithoutItsNorm) {
  const ScoreMask mask = MustMakeMask({});
  EXPECT_LE(RelativeDifference(NotebookMap(attention_, *weights_, "attn", x_, mask),
                               MapsOfBatch(AttendedBy(x_, mask).weights, kHeads)),
            1e-12);
}

TEST_F(WholeTest, DropoutActsOnWeightsAndNotOnTheMap) {
  const auto forward = [&](const Dropout& drop) {
    return ForwardWhole(attention_, *weights_, "attn", norm_, x_, {}, drop);
  };
  const AttentionOutput plain = forward(Dropout());
  const AttentionOutput dropped = forward(Dropout(0.5, DropoutKey{}, kBatch));
  EXPECT_TRUE(dropped.weights.equal(plain.weights));
  EXPECT_FALSE(dropped.y.equal(plain.y));
}

TEST(FeedForwardTest, GatedAndGelu) {
  constexpr int64_t kHidden = 6;
  const at::Tensor z = Normal({3, kWidth}, 1);
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    for (const bool gated : {false, true}) {
      const FeedForward feed{
          .hidden = kHidden, .activation = activation, .gated = gated};
      TensorList list;
      AddTensors(feed, "ff", kWidth, list);
      NamedTensors weights(list.Take());
      uint64_t seed = 1;
      int64_t count = 0;
      weights.Visit([&](const std::string&, at::Tensor& tensor) {
        tensor = Normal(tensor.sizes(), ++seed);
        ++count;
      });
      EXPECT_EQ(count, gated ? 6 : 4);
      at::Tensor hidden = Linear(z, weights.Map("ff.in"));
      for (int64_t i = 0; i < hidden.size(0); ++i) {
        for (int64_t j = 0; j < kHidden; ++j) {
          const double h = hidden[i][j].item<double>();
          hidden[i][j] = activation == Activation::kRelu
                             ? std::max(h, 0.0)
                             : h * 0.5 * std::erfc(-h / std::sqrt(2.0));
        }
      }
      if (gated) hidden = hidden * Linear(z, weights.Map("ff.factor"));
      EXPECT_LE(RelativeDifference(Forward(feed, weights, "ff", z, Dropout()),
                                   Linear(hidden, weights.Map("ff.out"))),
                1e-12);
    }
  }
}

TEST(HeadTest, ATiedHeadIsTheEmbedding) {
  const Head head{.tied = true};
  TensorList list;
  AddTensors(Embedding{}, 4, 5, StateSpec::kUnlimited, list);
  AddTensors(head, 4, 5, list);
  NamedTensors weights(list.Take());
  uint64_t seed = 1;
  weights.Visit([&](const std::string&, at::Tensor& tensor) {
    tensor = Normal(tensor.sizes(), ++seed);
  });
  EXPECT_FALSE(weights.Find("head.weight").defined() ||
               weights.Find("head.bias").defined());
  const at::Tensor x = Normal({2, 4}, 9), z = LayerNorm(x, weights.Map("norm"));
  const at::Tensor logits = Logits(head, weights, x, Dropout());
  for (int64_t token = 0; token < 5; ++token) {
    EXPECT_LE(RelativeDifference(logits.select(1, token),
                                 (z * weights.Get("embed.weight")[token]).sum(-1)),
              1e-14);
  }
}

}  // namespace
}  // namespace mnemon
