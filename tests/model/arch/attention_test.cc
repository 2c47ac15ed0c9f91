// SPDX-License-Identifier: MIT
// Multi-head attention under masks of every shape, against the sums written out.
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "gmock/gmock.h"
#include "model/layers/feed_forward.h"
#include "model/layers/frame.h"
#include "model/layers/multi_head.h"
#include "tests/model/arch/variants.h"

namespace mnemon {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kWidth = 12, kQueries = 5, kKeys = 7;
constexpr ScoreShape kShape{
    .batch = kBatch, .heads = kHeads, .queries = kQueries, .keys = kKeys};

class MultiHeadTest : public testing::Test {
 protected:
  MultiHeadTest() {
    weights_.heads = kHeads;
    uint64_t seed = 10;
    for (Affine* map :
         {&weights_.query, &weights_.key, &weights_.value, &weights_.output}) {
      map->weight = 0.5 * Normal({kWidth, kWidth}, ++seed);
    }
  }

  static ScoreMask MustMakeMask(const at::Tensor& mask) {
    absl::StatusOr<ScoreMask> made = MakeScoreMask(mask, kShape, at::kDouble);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  MultiHeadResult Attend(const at::Tensor& mask) const {
    return AttendMultiHead(query_, key_, value_, weights_, MustMakeMask(mask),
                           Dropout());
  }

  // One weight after the other. bias(b, h, i, j) is added to a score.
  template <class Bias>
  void ExpectSums(const MultiHeadResult& found, const Bias& bias) const {
    const at::Tensor q = Linear(query_, weights_.query);
    const at::Tensor k = Linear(key_, weights_.key);
    const at::Tensor v = Linear(value_, weights_.value);
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
            const at::Tensor products = head(q, b, i, h) * head(k, b, j, h);
            weight.push_back(std::exp(products.sum().item<double>() / std::sqrt(width) +
                                      bias(b, h, i, j)));
            sum += weight.back();
          }
          for (int64_t j = 0; j < kKeys; ++j) {
            const double expected = sum == 0.0 ? 0.0 : weight[j] / sum;
            EXPECT_NEAR(found.weights[b][h][i][j].item<double>(), expected, 1e-12);
            mixed[b][i].narrow(0, h * width, width).add_(head(v, b, j, h), expected);
          }
        }
      }
    }
    EXPECT_LE(RelativeDifference(found.output, Linear(mixed, weights_.output)), 1e-12);
  }

  MultiHead weights_;
  const at::Tensor query_ = Normal({kBatch, kQueries, kWidth}, 1);
  const at::Tensor key_ = Normal({kBatch, kKeys, kWidth}, 2);
  const at::Tensor value_ = Normal({kBatch, kKeys, kWidth}, 3);
};

double Hidden(bool takes_part) { return takes_part ? 0.0 : -INFINITY; }

TEST_F(MultiHeadTest, WithoutAMaskEveryKeyTakesPart) {
  ExpectSums(Attend({}), [](auto...) { return 0.0; });
}

TEST_F(MultiHeadTest, MasksOfTwoThreeAndFourDimensions) {
  at::Tensor two = Normal({kQueries, kKeys}, 4).gt(0);
  two[2].fill_(false);  // sees nothing
  at::Tensor three = Normal({kBatch, kQueries, kKeys}, 5).gt(0);
  three[1][0].fill_(false);
  at::Tensor four = Normal({kBatch, kHeads, kQueries, kKeys}, 6).gt(0);
  four[0][1][4].fill_(false);
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kLong}) {
    ExpectSums(Attend(two.to(type)), [&](auto, auto, int64_t i, int64_t j) {
      return Hidden(two[i][j].item<bool>());
    });
    ExpectSums(Attend(three.to(type)), [&](int64_t b, auto, int64_t i, int64_t j) {
      return Hidden(three[b][i][j].item<bool>());
    });
    ExpectSums(Attend(four.to(type)), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return Hidden(four[b][h][i][j].item<bool>());
    });
  }
}

TEST_F(MultiHeadTest, AdditiveMasks) {
  at::Tensor four = 2.0 * Normal({kBatch, kHeads, kQueries, kKeys}, 7);
  four.masked_fill_(four.gt(1.0), -INFINITY);
  four[1][2][3].fill_(-INFINITY);
  for (const at::Tensor& mask : {four, four[1][2]}) {
    ExpectSums(Attend(mask), [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      return (mask.dim() == 4 ? mask[b][h] : mask)[i][j].item<double>();
    });
  }
}

TEST_F(MultiHeadTest, AQueryThatSeesNothingGetsZerosAndGivesNoGradient) {
  at::Tensor query = query_.clone().set_requires_grad(true);
  at::Tensor key = key_.clone().set_requires_grad(true);
  at::Tensor mask = at::ones({kQueries, kKeys}, at::kBool);
  mask[3].fill_(false);
  mask.select(1, 6).fill_(false);  // a key that nobody sees
  const MultiHeadResult result =
      AttendMultiHead(query, key, value_, weights_, MustMakeMask(mask), Dropout());
  EXPECT_TRUE(result.output.select(1, 3).eq(0.0).all().item<bool>());
  EXPECT_TRUE(result.weights.select(2, 3).eq(0.0).all().item<bool>());
  (result.output.square().sum() + result.weights.pow(3).sum()).backward();
  EXPECT_TRUE(query.grad().isfinite().all().item<bool>());
  EXPECT_TRUE(query.grad().select(1, 3).eq(0.0).all().item<bool>());
  EXPECT_TRUE(key.grad().select(1, 6).eq(0.0).all().item<bool>());
  EXPECT_GT(query.grad().select(1, 2).abs().max().item<double>(), 0.0);
}

TEST_F(MultiHeadTest, DropoutActsOnWeightsAndNotOnTheMap) {
  const MultiHeadResult plain = Attend({});
  const MultiHeadResult dropped = AttendMultiHead(
      query_, key_, value_, weights_, {}, Dropout(0.5, DropoutKey{}, kShape.batch));
  EXPECT_TRUE(dropped.weights.equal(plain.weights));
  EXPECT_FALSE(dropped.output.equal(plain.output));
}

TEST_F(MultiHeadTest, MasksThatDoNotFitAreRefused) {
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

TEST(FeedForwardTest, GatedAndGelu) {
  constexpr int64_t kHidden = 6;
  const at::Tensor x = Normal({3, kWidth}, 1);
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    for (const bool gated : {false, true}) {
      FeedForward weights = MakeFeedForward({.d_model = kWidth,
                                             .d_ff = kHidden,
                                             .activation = activation,
                                             .gated = gated});
      uint64_t seed = 1;
      int64_t count = 0;
      VisitFeedForward(
          [&](const std::string&, at::Tensor& tensor) {
            tensor = Normal(tensor.sizes(), ++seed);
            ++count;
          },
          0, weights);
      EXPECT_EQ(count, gated ? 8 : 6);
      const at::Tensor z = LayerNorm(x, weights.norm);
      at::Tensor hidden = Linear(z, weights.in);
      for (int64_t i = 0; i < hidden.size(0); ++i) {
        for (int64_t j = 0; j < kHidden; ++j) {
          const double h = hidden[i][j].item<double>();
          hidden[i][j] = activation == Activation::kRelu
                             ? std::max(h, 0.0)
                             : h * 0.5 * std::erfc(-h / std::sqrt(2.0));
        }
      }
      if (gated) hidden = hidden * Linear(z, weights.factor);
      EXPECT_LE(RelativeDifference(AddFeedForward(x, weights, Dropout()),
                                   x + Linear(hidden, weights.out)),
                1e-12);
    }
  }
}

TEST(FrameTest, ATiedHeadIsTheEmbedding) {
  Frame frame = MakeFrame({.d_model = 4, .vocab = 5, .tie_head = true});
  uint64_t seed = 1;
  const auto draw = [&](const std::string&, at::Tensor& tensor) {
    tensor = Normal(tensor.sizes(), ++seed);
  };
  VisitEmbedding(draw, frame);
  VisitHead(draw, frame);
  EXPECT_FALSE(frame.head.weight.defined() || frame.head.bias.defined());
  const at::Tensor x = Normal({2, 4}, 9), z = LayerNorm(x, frame.norm);
  const at::Tensor logits = Logits(x, frame);
  for (int64_t token = 0; token < 5; ++token) {
    EXPECT_LE(
        RelativeDifference(logits.select(1, token), (z * frame.embed[token]).sum(-1)),
        1e-14);
  }
}

}  // namespace
}  // namespace mnemon
