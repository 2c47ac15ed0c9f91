// SPDX-License-Identifier: MIT
// Sums that are made in parts have the bits of those that are made as a whole.
#include "model/compute/packed_weights.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

struct PartsShape {
  int64_t rows, inputs, outputs, slice;
};

constexpr PartsShape kPartsShapes[] = {
    {1, 128, 40, 0}, {1, 96, 130, 32}, {3, 300, 70, 0}, {14, 512, 48, 0},
    {2, 60, 33, 9},  {1, 1100, 16, 0}, {7, 350, 20, 0}, {2, 600, 16, 290}};

using PartsTest = TargetTest;

// Row 1 sees no key.
std::vector<KeyRange> Ranges(int64_t rows) {
  std::vector<KeyRange> ranges(static_cast<size_t>(rows), KeyRange{.last = 3});
  if (rows > 1) ranges[1].last = -1;
  return ranges;
}

TEST_P(PartsTest, FoldGivesWhatLinearGives) {
  for (const WeightFormat format : kFormats) {
    for (const PartsShape& shape : kPartsShapes) {
      const auto [rows, inputs, outputs, slice] = shape;
      PackedWeights packed(format);
      const std::vector<float> weights = Drawn(outputs * inputs, 1);
      const std::vector<float> bias = Drawn(outputs, 2), in = Drawn(rows * inputs, 3);
      const std::vector<float> before = Drawn(rows * outputs, 4);
      const PlainMatrix part = {
          .weights = weights.data(), .bias = bias.data(), .outputs = outputs};
      const MatrixView matrix = Pack(packed, {&part, 1}, inputs, slice);
      const std::vector<KeyRange> ranges = Ranges(rows);

      std::vector<float> whole(rows * outputs, kNotANumber);
      const LinearCall linear = {.rows = rows,
                                 .in = {in.data(), inputs},
                                 .weights = matrix,
                                 .residual = {before.data(), outputs},
                                 .key_ranges = ranges.data(),
                                 .out = {whole.data(), outputs}};
      std::vector<float> scratch(ScratchFloats(linear));
      target().linear(linear, {}, scratch.data());

      const int64_t slices = matrix.slices();
      for (int64_t first = 1; first <= slices; ++first) {
        // The first ones together, the others apart.
        const int64_t size = rows * outputs, count = 1 + slices - first;
        std::vector<float> parts(count * size, kNotANumber);
        std::vector<float> scales(rows * slices, kNotANumber);
        PartsCall call = {.rows = rows,
                          .in = {in.data(), inputs},
                          .weights = matrix,
                          .slices = {0, first},
                          .part_stride = size,
                          .out = {parts.data(), outputs}};
        target().parts(call, {}, scratch.data());
        call.slices = {first, slices};
        call.each = true;
        call.out.data += size;
        call.scales = {scales.data(), slices};
        target().parts(call, {0, 2}, scratch.data());
        target().parts(call, {1, 2}, scratch.data());
        std::vector<float> folded = before;
        target().fold({.rows = rows,
                       .width = outputs,
                       .in = {parts.data(), outputs},
                       .parts = count,
                       .part_stride = size,
                       .bias = matrix.bias,
                       .scales = matrix.scales,
                       .part_scales = {scales.data(), slices},
                       .residual = {folded.data(), outputs},
                       .key_ranges = ranges.data(),
                       .out = {folded.data(), outputs}},
                      {});
        ASSERT_EQ(folded, whole) << inputs << " inputs, " << first << " together";
      }
      if (rows > 1) {
        // It stays as it is.
        EXPECT_TRUE(std::equal(whole.begin() + outputs, whole.begin() + 2 * outputs,
                               before.begin() + outputs));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PartsTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

}  // namespace
}  // namespace mnemon
