// SPDX-License-Identifier: MIT
// Embedding, appending to blocks, and mixing.
#include <utility>

#include "model/compute/weights.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

using RowsTest = TargetTest;

TEST_P(RowsTest, Embed) {
  for (const int64_t width : {1, 16, 20, 128}) {
    const std::vector<float> table = Drawn(5 * width, 1),
                             positions = Drawn(3 * width, 2);
    const std::vector<int32_t> ids = {4, 0, 4};
    const std::vector<int64_t> places = {2, 0, 1};
    for (const bool positioned : {false, true}) {
      const auto run = [&](const CpuOperations& operations, int workers) {
        std::vector<float> out(3 * width, kNotANumber);
        for (int w = 0; w < workers; ++w) {
          operations.embed({.rows = 3,
                            .width = width,
                            .table = table.data(),
                            .scale = 1.7f,
                            .ids = ids.data(),
                            .positions = places.data(),
                            .learned = positioned ? positions.data() : nullptr,
                            .out = {out.data(), width}},
                           {w, workers});
        }
        return out;
      };
      const std::vector<float> found = run(target(), 1);
      EXPECT_EQ(found, run(target(), 2));
      EXPECT_EQ(found, run(reference(), 1));
      const float first = 1.7f * table[4 * width];
      EXPECT_FLOAT_EQ(found[0], positioned ? first + positions[2 * width] : first);
    }
  }
}

// A packed matrix replaces a table in any format that rounds nothing.
TEST_P(RowsTest, EmbedOfAPackedMatrix) {
  for (const int64_t width : {1, 16, 21, 128, 1100}) {
    if (emulated() && width > 128) continue;
    std::vector<float> table = Drawn(20 * width, 1);
    for (float& number : table) number = FloatOfBf16(ToBf16(number));
    const std::vector<int32_t> ids = {4, 19, 0, 17};
    const auto run = [&](const CpuOperations& operations, const MatrixView* tied) {
      std::vector<float> out(4 * width, kNotANumber);
      operations.embed({.rows = 4,
                        .width = width,
                        .table = tied == nullptr ? table.data() : nullptr,
                        .tied = tied,
                        .scale = 1.7f,
                        .ids = ids.data(),
                        .out = {out.data(), width}},
                       {});
      return out;
    };
    for (const WeightFormat format : {WeightFormat::kFp32, WeightFormat::kBf16}) {
      PackedWeights packed(format);
      const PlainMatrix part = {.weights = table.data(), .outputs = 20};
      const MatrixView matrix = Pack(packed, {&part, 1}, width);
      EXPECT_EQ(run(target(), &matrix), run(target(), nullptr)) << width;
      EXPECT_EQ(run(reference(), &matrix), run(target(), nullptr)) << width;
    }
  }
}

TEST_P(RowsTest, AppendTouchesOnlyItsPlaces) {
  constexpr int64_t kHeads = 3;
  for (const int64_t width : {1, 16, 20}) {
    const int64_t row = kHeads * width, value_offset = row * kBlockPositions;
    const int64_t fold_offset = 2 * value_offset;
    const std::vector<float> key = Drawn(2 * row, 1), value = Drawn(2 * row, 2);
    const std::vector<float> bias = Drawn(row, 3);
    const std::vector<float> before = Drawn(fold_offset + kHeads * kBlockPositions, 4);
    const auto run = [&](const CpuOperations& operations, int workers) {
      std::vector<float> block = before;
      const Place places[] = {{block.data(), 3}, {block.data(), 15}};
      for (int w = 0; w < workers; ++w) {
        operations.append({.rows = 2,
                           .heads = kHeads,
                           .width = width,
                           .places = places,
                           .key = {key.data(), row},
                           .value = {value.data(), row},
                           .head_stride = width,
                           .key_offset = 0,
                           .value_offset = value_offset,
                           .fold_offset = fold_offset,
                           .query_bias = bias.data()},
                          {w, workers});
      }
      return block;
    };
    const std::vector<float> found = run(target(), 1);
    EXPECT_EQ(found, run(target(), 4));
    EXPECT_LE(Difference(found, run(reference(), 1)), 1e-6);
    EXPECT_EQ(found[3], key[0]);
    EXPECT_EQ(found[value_offset + 15 * width], value[row]);
    EXPECT_EQ(found[value_offset + (16 + 15) * width], value[row + width]);
    int64_t changed = 0;
    for (size_t i = 0; i < found.size(); ++i) changed += found[i] != before[i] ? 1 : 0;
    EXPECT_EQ(changed, 2 * (2 * row + kHeads));
  }
}

TEST_P(RowsTest, AppendSaysWhetherAllIsFinite) {
  constexpr int64_t kHeads = 3;
  for (const CpuOperations* operations : {&target(), &reference()}) {
    for (const int64_t width : {1, 16, 20}) {
      const int64_t row = kHeads * width, value_offset = row * kBlockPositions;
      std::vector<float> key = Drawn(row, 1), value = Drawn(row, 2);
      std::vector<float> bias = Drawn(row, 3);
      std::vector<float> block(2 * value_offset + kHeads * kBlockPositions);
      const Place place = {block.data(), 7};
      const auto finite = [&](Share share) {
        return operations->append({.rows = 1,
                                   .heads = kHeads,
                                   .width = width,
                                   .places = &place,
                                   .key = {key.data(), row},
                                   .value = {value.data(), row},
                                   .head_stride = width,
                                   .value_offset = value_offset,
                                   .fold_offset = 2 * value_offset,
                                   .query_bias = bias.data()},
                                  share);
      };
      EXPECT_TRUE(finite({}));
      for (std::vector<float>* numbers : {&key, &value}) {
        for (float& number : *numbers) {
          for (const float wrong : {kNotANumber, HUGE_VALF, -HUGE_VALF}) {
            const float right = std::exchange(number, wrong);
            EXPECT_FALSE(finite({}));
            number = right;
          }
        }
      }
      // Found in the share that has it, and in no other.
      value[row - 1] = kNotANumber;
      EXPECT_TRUE(finite({0, 3}));
      EXPECT_FALSE(finite({2, 3}));
      value[row - 1] = 0;
      // Finite, but their product is not.
      key[0] = bias[0] = 3e38f;
      EXPECT_FALSE(finite({}));
      bias[0] = 0;
      EXPECT_TRUE(finite({}));
    }
  }
}

TEST_P(RowsTest, Mix) {
  constexpr int64_t kLayers = 4;
  for (const int64_t width : {1, 16, 20, 128}) {
    const std::vector<float> in = Drawn(kLayers * 2 * width, 1);
    const std::vector<float> weights = {0.1f, 0.2f, 0.3f, 0.4f};
    const auto run = [&](const CpuOperations& operations, int workers) {
      std::vector<float> out(3 * width, -1.0f);
      for (int w = 0; w < workers; ++w) {
        operations.mix({.rows = 2,
                        .width = width,
                        .layers = kLayers,
                        .weights = weights.data(),
                        .in = {in.data(), width},
                        .layer_stride = 2 * width,
                        .out = {out.data(), width}},
                       {w, workers});
      }
      return out;
    };
    const std::vector<float> found = run(target(), 1);
    EXPECT_EQ(found, run(target(), 3));
    EXPECT_LE(Difference(found, run(reference(), 1)), 1e-6);
    EXPECT_EQ(found.back(), -1.0f);  // of a row that is not there
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowsTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

}  // namespace
}  // namespace mnemon
