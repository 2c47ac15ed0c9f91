// SPDX-License-Identifier: MIT
// Norms and rotary positions of heads.
#include <cmath>

#include "model/blocks/attention/rotary.h"
#include "model/compute/angle_table.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

struct TurnShape {
  int64_t rows, groups, queries, width, turned;
  bool key, normed;
};

constexpr TurnShape kTurnShapes[] = {
    {1, 1, 1, 2, 2, true, false},    {3, 2, 3, 10, 10, true, true},
    {2, 3, 1, 64, 64, true, false},  {5, 1, 4, 20, 6, false, true},
    {2, 2, 2, 33, 0, true, true},    {7, 4, 1, 40, 34, true, false},
    {1, 2, 5, 128, 128, true, true}, {4, 1, 2, 18, 18, true, true}};

class Heads {
 public:
  explicit Heads(const TurnShape& shape)
      : shape_(shape),
        stride_((shape.queries + 1) * Padded(shape.width)),
        row_(shape.groups * stride_),
        gains_(Drawn(2 * shape.width, 1)),
        zeros_(static_cast<size_t>(shape.width)),
        angles_(70000, shape.turned == 0
                           ? std::vector<double>{}
                           : FrequenciesOf({.width = shape.turned, .theta = 500})) {}

  std::vector<float> Run(const CpuOperations& operations, int workers) const {
    std::vector<float> heads = Drawn(shape_.rows * row_, 2);
    const std::vector<int64_t> positions = {0, 1, 69999, 256, 255, 4097, 31};
    TurnCall call = {.rows = shape_.rows,
                     .groups = shape_.groups,
                     .queries = shape_.queries,
                     .key = shape_.key,
                     .width = shape_.width,
                     .group_stride = stride_,
                     .magnitude = 1.25f,
                     .positions = positions.data(),
                     .heads = {heads.data(), row_}};
    if (shape_.normed) {
      call.query_norm = {gains_.data(), zeros_.data(), 1e-3f, /*centred=*/false};
      call.key_norm = call.query_norm;
      call.key_norm.gain += shape_.width;
    }
    if (shape_.turned > 0) call.angles = angles_.view();
    for (int w = 0; w < workers; ++w) operations.turn(call, {w, workers});
    return heads;
  }

 private:
  const TurnShape shape_;
  const int64_t stride_, row_;
  const std::vector<float> gains_, zeros_;
  const AngleTable angles_;
};

using TurnTest = TargetTest;

TEST_P(TurnTest, AgreesWithTheReferenceAndHasTheBitsOfOthers) {
  for (const TurnShape& shape : kTurnShapes) {
    const Heads heads(shape);
    const std::vector<float> found = heads.Run(target(), 1);
    EXPECT_LE(Difference(found, heads.Run(reference(), 1)), 1e-6) << shape.width;
    EXPECT_EQ(found, heads.Run(best(), 1)) << shape.width;
    EXPECT_EQ(found, heads.Run(target(), 3)) << shape.width;
  }
}

TEST_P(TurnTest, NormsAndAddsRows) {
  constexpr int64_t kRows = 5, kWidth = 37;
  const std::vector<float> given = Drawn(kRows * kWidth, 1), gain = Drawn(kWidth, 2),
                           bias = Drawn(kWidth, 3), residual = Drawn(kRows * kWidth, 4);
  for (const bool centred : {true, false}) {
    for (const float scale : {1.0f, 0.7f}) {
      const auto run = [&](const CpuOperations& operations, int workers) {
        std::vector<float> in = given, out = residual;
        for (int w = 0; w < workers; ++w) {
          operations.norm({.rows = kRows,
                           .width = kWidth,
                           .in = {in.data(), kWidth},
                           .norm = {gain.data(), bias.data(), 1e-3f, centred},
                           .residual = {out.data(), kWidth},
                           .scale = scale,
                           .room = {in.data(), kWidth},
                           .out = {out.data(), kWidth}},
                          {w, workers});
        }
        return out;
      };
      const std::vector<float> found = run(target(), 1);
      EXPECT_LE(Difference(found, run(reference(), 1)), 1e-6);
      EXPECT_EQ(found, run(best(), 2));
      EXPECT_NE(found, residual);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, TurnTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

// docs/numerics.md.
TEST(RotaryTest, AnglesFarAfterTheStart) {
  constexpr int64_t kLast = 131072;
  for (const double theta : {1e4, 5e5}) {
    const AngleTable table(kLast + 1, FrequenciesOf({.width = 128, .theta = theta}));
    const AngleView view = table.view();
    for (int64_t p = kLast; p > 0; p -= 997) {
      const double* const a = view.coarse + p / view.stride * view.turns;
      const double* const b = view.fine + p % view.stride * view.turns;
      for (int64_t i = 0; i < 128; i += 2) {
        const long double angle =
            static_cast<long double>(p) *
            powl(static_cast<long double>(theta), -static_cast<long double>(i) / 128);
        EXPECT_NEAR(a[i] * b[i + 1] + a[i + 1] * b[i], static_cast<double>(sinl(angle)),
                    2e-11);
        EXPECT_NEAR(a[i + 1] * b[i + 1] - a[i] * b[i], static_cast<double>(cosl(angle)),
                    2e-11);
      }
    }
  }
}

// Frequencies as their papers say, and what is refused.
TEST(RotaryTest, Frequencies) {
  const std::vector<double> plain = FrequenciesOf({.width = 8, .theta = 100});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(plain[i], std::pow(100.0, -static_cast<double>(i) / 4), 1e-15);
  }
  const std::vector<double> linear =
      FrequenciesOf({.width = 8, .theta = 100, .scaling = LinearScaling{.factor = 4}});
  EXPECT_DOUBLE_EQ(linear[2], plain[2] / 4);
  const std::vector<double> llama3 = FrequenciesOf(
      {.width = 8, .theta = 1e6, .scaling = Llama3Scaling{.factor = 8, .context = 64}});
  EXPECT_EQ(llama3[0], 1.0);
  EXPECT_NEAR(llama3[3], std::pow(1e6, -0.75) / 8, 1e-15);
  EXPECT_FALSE(FaultsOf(Rotary{.width = 10}, 8).empty());
  EXPECT_FALSE(FaultsOf(Rotary{.width = 3}, 8).empty());
  EXPECT_FALSE(FaultsOf(Rotary{.width = 4, .theta = 1}, 8).empty());
  EXPECT_FALSE(
      FaultsOf(Rotary{.width = 4, .scaling = LinearScaling{.factor = 0}}, 8).empty());
  EXPECT_TRUE(FaultsOf(Rotary{.width = 4}, 8).empty());
}

}  // namespace
}  // namespace mnemon
