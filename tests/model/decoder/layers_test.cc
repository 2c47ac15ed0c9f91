// SPDX-License-Identifier: MIT
// Layers against their equations, written out.
#include <array>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "model/blocks/attention/alibi.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/attention/positions_torch.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/ends/forward_torch.h"
#include "model/blocks/ends/sinusoid.h"
#include "model/blocks/fast_weights/delta_rule_torch.h"
#include "model/blocks/feedback_memory/growing_rows_torch.h"
#include "model/blocks/step_linear_torch.h"
#include "model/compute/angle_table.h"
#include "model/operations/cpu_operations.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

TEST(DpfpTest, WorkedExample) {
  const at::Tensor products = DpfpProducts(at::tensor({1.0, -2.0}), 1);
  EXPECT_TRUE(products.equal(at::tensor({2.0, 0.0, 0.0, 0.0})));
  EXPECT_LE(RelativeDifference(Dpfp(at::tensor({1.0, -2.0}), 1),
                               at::tensor({1.0, 0.0, 0.0, 0.0})),
            1e-6);
}

TEST(DpfpTest, ZeroAndAlternatingKeysStayFinite) {
  EXPECT_TRUE(Dpfp(at::zeros({5}), 1).equal(at::zeros({10})));
  const at::Tensor alternating = at::tensor({1.0, -1.0, 1.0, -1.0, 1.0});
  EXPECT_TRUE(Dpfp(alternating, 1).equal(at::zeros({10}, at::kDouble)));
}

TEST(EluFeaturesTest, WorkedExample) {
  const at::Tensor phi = EluFeatures(at::tensor({1.0, -2.0, 0.0}));
  const double low = std::exp(-2.0), sum = 3 + low + 1e-6;
  EXPECT_LE(RelativeDifference(phi, at::tensor({2 / sum, low / sum, 1 / sum})), 1e-6);
}

struct Rule {
  bool delta;
  bool normalised;
};

class RunFastWeightsTest : public testing::TestWithParam<Rule> {};

// The recurrence of the header, one token at a time, from a W that is not zero.
TEST_P(RunFastWeightsTest, EqualsTheRecurrence) {
  constexpr int64_t kRows = 3, kWidth = 4, kFeatures = 8;
  for (const int64_t time : {1, 2, 31, 32, 33, 64, 77}) {
    FastWeightInput input{.q = Dpfp(Normal({kRows, time, kWidth}, 1), 1),
                          .k = Dpfp(Normal({kRows, time, kWidth}, 2), 1),
                          .v = Normal({kRows, time, kWidth}, 3),
                          .beta = {}};
    if (GetParam().delta) input.beta = Normal({kRows, time, 1}, 4).sigmoid();
    FastWeightState state{.w = Normal({kRows, kWidth, kFeatures}, 5), .z = {}};
    if (GetParam().normalised) state.z = Normal({kRows, kFeatures}, 6).abs();

    at::Tensor w = state.w, z = state.z;
    std::vector<at::Tensor> expected;
    for (int64_t i = 0; i < time; ++i) {
      const at::Tensor k = input.k.select(1, i).unsqueeze(-1);  // [R, N, 1]
      const at::Tensor q = input.q.select(1, i).unsqueeze(-1);
      const at::Tensor v = input.v.select(1, i).unsqueeze(-1);  // [R, K, 1]
      const at::Tensor written =
          GetParam().delta ? input.beta.select(1, i).unsqueeze(-1) * (v - at::bmm(w, k))
                           : v;
      w = w + at::bmm(written, k.transpose(1, 2));
      at::Tensor y = at::bmm(w, q).squeeze(-1);
      if (z.defined()) {
        z = z + k.squeeze(-1);
        y = y / ((z * q.squeeze(-1)).sum(-1, true) + 1e-6);
      }
      expected.push_back(y);
    }
    const at::Tensor y = RunFastWeights(input, state);
    EXPECT_LE(RelativeDifference(y, at::stack(expected, 1)), 1e-12) << "T=" << time;
    EXPECT_LE(RelativeDifference(state.w, w), 1e-12) << "T=" << time;
    if (z.defined()) {
      EXPECT_LE(RelativeDifference(state.z, z), 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RunFastWeightsTest,
                         testing::Values(Rule{true, false}, Rule{true, true},
                                         Rule{false, false}, Rule{false, true}));

TEST(RunFastWeightsTest, EqualKeysDoNotAmplifyRounding) {
  // With one key all along, W holds the last value written with beta = 1: a solution of
  // the chunk's system by powers of its matrix would lose all digits here.
  constexpr int64_t kTime = 32;
  at::Tensor key = at::zeros({1, kTime, 4});
  key.select(2, 1).fill_(1.0);
  const at::Tensor v = Normal({1, kTime, 3}, 1).to(at::kFloat);
  FastWeightState state{.w = at::zeros({1, 3, 4}), .z = {}};
  const at::Tensor y = RunFastWeights(
      {.q = key, .k = key, .v = v, .beta = at::zeros({1, kTime, 1}) + 1.0}, state);
  EXPECT_LE(RelativeDifference(y, v), 1e-6);
}

TEST(RelativeScoresTest, EntryIsTheRowOfItsDistance) {
  constexpr int64_t kHeads = 2, kWidth = 3;
  for (const auto& [time, keys, rows] :
       {std::array<int64_t, 3>{4, 7, 7}, {4, 4, 4}, {1, 5, 5}, {5, 9, 3}, {3, 3, 1}}) {
    const at::Tensor q = Normal({kHeads, time, kWidth}, 1);
    const at::Tensor key = Normal({rows, kHeads, kWidth}, 2);
    const at::Tensor bias = Normal({rows, kHeads}, 3);
    const at::Tensor scores = RelativeScores(q, key, bias, keys);
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < time; ++i) {
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t distance = keys - time + i - j;
          if (distance < 0 || distance >= rows) continue;
          const int64_t row = rows - 1 - distance;
          EXPECT_NEAR(scores[h][i][j].item<double>(),
                      ((q[h][i] * key[row][h]).sum() + bias[row][h]).item<double>(),
                      1e-12);
        }
      }
    }
  }
}

TEST(CausalMaskTest, HidesFutureAndWhatLiesBeyondReach) {
  EXPECT_FALSE(CausalMask(1, 5, 4, at::kFloat).defined());
  EXPECT_TRUE(CausalMask(1, 5, 3, at::kFloat).defined());
  const at::Tensor mask = CausalMask(3, 5, 2, at::kFloat);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      const int64_t distance = 2 + i - j;
      EXPECT_EQ(mask[i][j].item<float>(),
                distance >= 0 && distance <= 2 ? 0.0f : -INFINITY);
    }
  }
}

TEST(SinusoidTest, RowsOfTheTable) {
  const at::Tensor rows = Sinusoid(4990, 3, 6, at::kFloat);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = (4990 + t) * std::pow(10000.0, -2.0 * i / 6);
      EXPECT_NEAR(rows[t][2 * i].item<float>(), std::sin(angle), 1e-6);
      EXPECT_NEAR(rows[t][2 * i + 1].item<float>(), std::cos(angle), 1e-6);
    }
  }
  EXPECT_EQ(Sinusoid(0, 2, 5, at::kDouble).size(1), 5);
}

// What Embed adds for a position.
std::vector<float> Sinusoids(const AngleTable& table, int64_t position, int64_t width) {
  const std::vector<float> zeros(width);
  const int32_t id = 0;
  std::vector<float> row(width);
  FindCpuOperations("").value()->embed({.rows = 1,
                                        .width = width,
                                        .table = zeros.data(),
                                        .ids = &id,
                                        .positions = &position,
                                        .sinusoid = table.view(),
                                        .out = {row.data(), width}},
                                       {});
  return row;
}

TEST(SinusoidTest, TableOfTurnsIsTheSame) {
  for (const int64_t width : {1, 2, 5, 6, 128}) {
    const AngleTable table(70000, SinusoidFrequencies(width));
    std::vector<double> exact(width);
    for (const int64_t position : {0, 1, 255, 256, 257, 4990, 65535, 69999}) {
      SinusoidRow(position, exact);
      const std::vector<float> found = Sinusoids(table, position, width);
      for (int64_t d = 0; d < width; ++d) {
        // Half a unit of the last place of a float below 1.
        EXPECT_NEAR(found[d], exact[d], 6e-8) << position << " of " << width;
      }
    }
  }
  EXPECT_NEAR(Sinusoids(AngleTable(3, SinusoidFrequencies(4)), 2, 4)[3],
              std::cos(2 * 0.01), 6e-8);
}

TEST(AlibiTest, SlopesOfAnyNumberOfHeads) {
  EXPECT_EQ(AlibiSlopes(1), (std::vector<double>{1.0 / 256}));
  EXPECT_EQ(AlibiSlopes(4),
            (std::vector<double>{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256}));
  EXPECT_EQ(AlibiSlopes(6), (std::vector<double>{1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256,
                                                 1.0 / 2, 1.0 / 8}));
}

TEST(AlibiTest, BiasFallsWithTheDistance) {
  const at::Tensor bias = AlibiBias(2, 3, 5, at::kDouble);
  EXPECT_EQ(bias.sizes(), (std::vector<int64_t>{2, 3, 5}));
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        EXPECT_EQ(bias[h][i][j].item<double>(),
                  -AlibiSlopes(2)[h] * std::abs(2 + i - j));
      }
    }
  }
}

TEST(SplitHeadsTest, MergeIsItsInverse) {
  const at::Tensor x = Normal({2, 3, 8}, 1);
  const at::Tensor split = SplitHeads(x, 4);
  EXPECT_EQ(split.sizes(), (std::vector<int64_t>{8, 3, 2}));
  EXPECT_TRUE(split[2 * 3 + 1].equal(x[1].narrow(1, 6, 2)));  // head 3, sequence 1
  EXPECT_TRUE(MergeHeads(split, 4).equal(x));
}

TEST(GrowingRowsTest, PrefixesShareOneBufferAndStayTrue) {
  GrowingRows list(6);
  EXPECT_TRUE(list.empty());
  const at::Tensor rows = Normal({2, 6, 3}, 1);
  std::vector<at::Tensor> prefixes;
  for (const auto& [begin, count] : {std::pair{0, 2}, {2, 1}, {3, 1}, {4, 2}}) {
    list.Append(rows.narrow(1, begin, count));
    prefixes.push_back(list.rows());
  }
  for (const at::Tensor& prefix : prefixes) {
    EXPECT_TRUE(prefix.equal(rows.narrow(1, 0, prefix.size(1))));
    EXPECT_EQ(prefix.data_ptr(), prefixes[0].data_ptr());
  }
}

TEST(GrowingRowsTest, GradientsEqualThoseOfStacking) {
  const at::Tensor rows = Normal({2, 5, 3}, 1).set_requires_grad(true);
  const at::Tensor readers = Normal({5, 2, 5, 3}, 2);
  const auto read = [&](const at::Tensor& prefix, int64_t t) {
    return (prefix * prefix * readers[t].narrow(1, 0, prefix.size(1))).sum();
  };
  const auto gradient = [&](bool growing) {
    GrowingRows list(5);
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (int64_t t = 0; t < 5; ++t) {
      list.Append(rows.narrow(1, t, 1));
      loss = loss + read(growing ? list.rows() : rows.narrow(1, 0, t + 1), t);
    }
    loss.backward();
    at::Tensor result = rows.grad().clone();
    rows.mutable_grad().reset();
    return result;
  };
  EXPECT_LE(RelativeDifference(gradient(true), gradient(false)), 1e-15);
}

TEST(DropoutTest, KeepsTheMean) {
  const at::Tensor x = at::zeros({100, 100}) + 3.0;
  const Dropout dropout(0.25, DropoutKey{.key = 1}, 100);
  const at::Tensor dropped = dropout(x, DropoutKind::kHidden);
  const at::Tensor zero = dropped.eq(0.0), kept = dropped.eq(4.0);
  EXPECT_TRUE(zero.logical_or(kept).all().item<bool>());
  EXPECT_NEAR(zero.to(at::kFloat).mean().item<double>(), 0.25, 0.02);
  EXPECT_TRUE(Dropout(0.25, std::nullopt, 100)(x, DropoutKind::kHidden).equal(x));
  EXPECT_TRUE(Dropout()(x, DropoutKind::kHidden).equal(x));
}

// Each element's own place decides: parts of a batch, of a window and of the heads have
// the masks that they have in the whole.
TEST(DropoutTest, PartsHaveTheMasksOfTheWhole) {
  constexpr int64_t kHeads = 3, kRows = 5, kTime = 7, kWidth = 300;
  const auto mask = [&](const DropoutKey& key, int64_t rows, int64_t layer,
                        DropoutKind kind) {
    return Dropout(0.3, key, rows)
        .At(layer)(at::ones({kHeads * rows, kTime, kWidth}), kind)
        .view({kHeads, rows, kTime, kWidth});
  };
  const at::Tensor whole = mask({.key = 9}, kRows, 2, DropoutKind::kAttention);
  const at::Tensor rows =
      mask({.key = 9, .first_row = 2}, 2, 2, DropoutKind::kAttention);
  EXPECT_TRUE(rows.equal(whole.narrow(1, 2, 2)));
  const at::Tensor position =
      Dropout(0.3, DropoutKey{.key = 9}, kRows)
          .At(2, 4)(at::ones({kHeads * kRows, 100}), DropoutKind::kAttention);
  EXPECT_TRUE(
      position.view({kHeads, kRows, 100}).equal(whole.select(2, 4).narrow(2, 0, 100)));
  // Nothing else has them.
  for (const at::Tensor& other :
       {mask({.key = 8}, kRows, 2, DropoutKind::kAttention),
        mask({.key = 9}, kRows, 1, DropoutKind::kAttention),
        mask({.key = 9}, kRows, 2, DropoutKind::kHidden), whole.roll(1, 0),
        whole.roll(1, 1), whole.roll(1, 2), whole.roll(1, 3), whole.roll(128, 3)}) {
    EXPECT_NEAR(other.eq(whole).to(at::kFloat).mean().item<double>(), 0.58, 0.02);
  }
}

TEST(StepLinearTest, GradientsEqualThoseOfLinear) {
  constexpr int64_t kSteps = 4, kBatch = 2, kIn = 3, kOut = 5;
  for (const bool has_bias : {false, true}) {
    Affine weights{.weight = Normal({kOut, kIn}, 1).set_requires_grad(true),
                   .bias = {}};
    if (has_bias) weights.bias = Normal({kOut}, 2).set_requires_grad(true);
    const at::Tensor x = Normal({kSteps, kBatch, kIn}, 3).set_requires_grad(true);
    const auto gradients = [&](auto map) {
      at::Tensor loss = at::zeros({}, at::kDouble);
      for (int64_t t = 0; t < kSteps; ++t) loss = loss + map(x[t]).pow(3).sum();
      loss.backward();
      std::vector<at::Tensor> result;
      for (at::Tensor leaf : {weights.weight, x, weights.bias}) {
        if (!leaf.defined()) continue;
        result.push_back(leaf.grad().clone());
        leaf.mutable_grad().reset();
      }
      return result;
    };
    const auto expected =
        gradients([&](const at::Tensor& row) { return Linear(row, weights); });
    const auto found = gradients(StepLinear(weights, kSteps, kBatch));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(RelativeDifference(found[i], expected[i]), 1e-14);
    }
  }
}

}  // namespace
}  // namespace mnemon
