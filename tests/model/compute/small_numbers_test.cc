// SPDX-License-Identifier: MIT
// Operations write +0 in place of results below kSmallest in size (docs/numerics.md).
#include <bit>

#include "model/compute/packed_weights.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

constexpr int64_t kRowWidth = 20;
constexpr float kTiny = 1e-16f;   // below kSmallest
constexpr float kFactor = 1e-9f;  // above it, but not its square

// Numbers of both signs.
std::vector<float> Signed(int64_t count, float size) {
  std::vector<float> values(static_cast<size_t>(count), size);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = -size;
  return values;
}

void ExpectZeros(std::span<const float> values) {
  for (const float value : values)
    ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u) << value;
}

class SmallNumbersTest : public TargetTest {
 protected:
  std::vector<float> out_ = std::vector<float>(kRowWidth, kNotANumber);
};

TEST_P(SmallNumbersTest, Linear) {
  const std::vector<float> in(kRowWidth, kFactor), residual = Signed(kRowWidth, kTiny);
  const std::vector<float> weights(kRowWidth * kRowWidth, -kFactor);
  for (const WeightFormat format : kFormats) {
    PackedWeights packed(format);
    const PlainMatrix part = {.weights = weights.data(), .outputs = kRowWidth};
    const MatrixView matrix = Pack(packed, {&part, 1}, kRowWidth);
    for (const bool gated : {false, true}) {
      for (const bool left : {false, true}) {
        LinearCall call = {.rows = 1,
                           .in = {in.data(), kRowWidth},
                           .weights = matrix,
                           .gate = gated ? &matrix : nullptr,
                           .out = {out_.data(), kRowWidth}};
        if (left) call.residual = {residual.data(), kRowWidth};
        std::vector<float> scratch(ScratchFloats(call));
        target().linear(call, {}, scratch.data());
        ExpectZeros(out_);
      }
    }
  }
}

TEST_P(SmallNumbersTest, PackedWeights) {
  const std::vector<float> weights = Signed(kRowWidth, kTiny);
  PackedWeights packed(WeightFormat::kFp32);
  const PlainMatrix part = {
      .weights = weights.data(), .bias = weights.data(), .outputs = 1};
  const MatrixView matrix = Pack(packed, {&part, 1}, kRowWidth);
  ExpectZeros({static_cast<const float*>(matrix.panels),
               static_cast<size_t>(kRowWidth * kPanel)});
  ExpectZeros({matrix.bias, kPanel});
}

TEST_P(SmallNumbersTest, Norm) {
  const std::vector<float> in = Signed(kRowWidth, 1.0f), none(kRowWidth, 0.0f);
  // GELU halves what is just above.
  for (const auto& [size, act] : {std::pair(kTiny, Act::kNone),
                                  {kTiny, Act::kRelu},
                                  {1.1f * kSmallest, Act::kGelu}}) {
    const std::vector<float> gain(kRowWidth, size);
    target().norm({.rows = 1,
                   .width = kRowWidth,
                   .in = {in.data(), kRowWidth},
                   .norm = {.gain = gain.data(), .bias = none.data()},
                   .act = act,
                   .out = {out_.data(), kRowWidth}},
                  {});
    ExpectZeros(out_);
  }
}

TEST_P(SmallNumbersTest, EmbedAndMix) {
  const std::vector<float> table = Signed(kRowWidth, kTiny),
                           in = Signed(kRowWidth, kFactor);
  const int32_t id = 0;
  target().embed({.rows = 1,
                  .width = kRowWidth,
                  .table = table.data(),
                  .ids = &id,
                  .out = {out_.data(), kRowWidth}},
                 {});
  ExpectZeros(out_);
  out_.assign(kRowWidth, kNotANumber);
  target().mix({.rows = 1,
                .width = kRowWidth,
                .layers = 1,
                .weights = &kFactor,
                .in = {in.data(), kRowWidth},
                .out = {out_.data(), kRowWidth}},
               {});
  ExpectZeros(out_);
}

TEST_P(SmallNumbersTest, AppendAndAttend) {
  const std::vector<float> key(kRowWidth, kFactor), value = Signed(kRowWidth, kTiny);
  constexpr int64_t kFold = 2 * kRowWidth * kBlockPositions;
  std::vector<float> block(kFold + kBlockPositions);
  const Place place = {.block = block.data()};
  target().append({.rows = 1,
                   .heads = 1,
                   .width = kRowWidth,
                   .places = &place,
                   .key = {key.data(), kRowWidth},
                   .value = {value.data(), kRowWidth},
                   .head_stride = kRowWidth,
                   .value_offset = kRowWidth * kBlockPositions,
                   .fold_offset = kFold,
                   .query_bias = key.data()},
                  {});
  ExpectZeros({block.data() + kFold, kBlockPositions});
  const float* const blocks = block.data();
  const KeyRange key_range = {.blocks = &blocks};
  const AttendCall call = {.rows = 1,
                           .heads = 1,
                           .width = kRowWidth,
                           .query = {key.data(), kRowWidth},
                           .group_stride = kRowWidth,
                           .out = {out_.data(), kRowWidth},
                           .key_ranges = &key_range,
                           .groups = 1,
                           .value_offset = kRowWidth * kBlockPositions};
  std::vector<float> scratch(ScratchFloats(call));
  target().attend(call, {}, scratch.data());
  ExpectZeros(out_);
}

TEST_P(SmallNumbersTest, FastWeights) {
  constexpr int64_t kFeatures = 2 * kRowWidth;
  std::vector<float> features(kRowWidth, -1.0f);  // those of the upper half stay 0
  constexpr int64_t kState = kFeatures * kRowWidth;
  std::vector<float> fixed = Signed(kState + kFeatures, kTiny);
  const std::vector<float> value = Signed(kRowWidth, kTiny);
  const FastWeightRun run = {.count = 1, .fixed = fixed.data()};
  const FastWeightCall call = {.heads = 1,
                               .width = kRowWidth,
                               .runs = 1,
                               .run = &run,
                               .normaliser_offset = kState,
                               .query = {features.data(), kRowWidth},
                               .key = {features.data(), kRowWidth},
                               .value = {value.data(), kRowWidth},
                               .head_stride = kRowWidth,
                               .out = {out_.data(), kRowWidth}};
  std::vector<float> scratch(ScratchFloats(call));
  target().fast_weights(call, {}, scratch.data());
  ExpectZeros({fixed.data(), static_cast<size_t>(kState + kRowWidth)});
  ExpectZeros(out_);
}

TEST_P(SmallNumbersTest, Softmax) {
  std::vector<float> scores(kRowWidth, 0.0f);
  scores[3] = -33.2f;  // its exponential is above kSmallest, a nineteenth of it is not
  target().softmax({.rows = 1, .keys = kRowWidth, .scores = {scores.data(), kRowWidth}},
                   {});
  ExpectZeros({&scores[3], 1});
  EXPECT_FLOAT_EQ(scores[0], 1.0f / 19);
}

INSTANTIATE_TEST_SUITE_P(Targets, SmallNumbersTest,
                         testing::ValuesIn(TargetsUnderTest()), TargetName);

}  // namespace
}  // namespace mnemon
