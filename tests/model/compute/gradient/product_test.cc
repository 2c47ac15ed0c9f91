// SPDX-License-Identifier: MIT
#include "model/compute/gradient/product.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "model/compute/each_target.h"
#include "model/compute/gradient/weight_gradient.h"

namespace mnemon {
namespace {

template <class Real>
AlignedVector<Real> Drawn(int64_t count, uint32_t seed) {
  std::minstd_rand random(seed * 2654435761u + 1);
  std::uniform_real_distribution<Real> value(-1, 1);
  AlignedVector<Real> numbers(static_cast<size_t>(count));
  for (Real& number : numbers) number = value(random);
  return numbers;
}

struct Shape {
  int64_t rows, columns, depth;
};
// Around tiles of 12, panels of 16 and slices of 256.
constexpr Shape kShapes[] = {{1, 1, 1},    {1, 130, 37},  {2, 16, 256},  {12, 32, 64},
                             {13, 33, 65}, {25, 47, 257}, {30, 17, 700}, {3, 5, 0}};

// Both kinds of operands, with what is added and the activation.
template <class Real>
void ExpectProducts(double tolerance) {
  for (const auto& [rows, columns, depth] : kShapes) {
    const auto a = Drawn<Real>(rows * depth, 1);
    const auto b = Drawn<Real>(depth * columns + kColumnPanel, 2);
    const auto from = Drawn<Real>(rows * columns, 3);
    const auto bias = Drawn<Real>(columns, 4);
    PackedOperand<Real> packed;
    packed.Reserve(depth, columns);
    packed.FillAll(b.data(), columns, 1);
    for (const bool transposed : {false, true}) {
      for (const bool whole : {false, true}) {
        AlignedVector<Real> out(static_cast<size_t>(rows * (columns + 3)), Real{7});
        const LeftOperand<Real> left = {a.data(), transposed ? 1 : depth,
                                        transposed ? rows : 1};
        Multiply(ProductCall<Real>{
            .rows = rows,
            .columns = columns,
            .depth = depth,
            .a = left,
            .b = whole ? packed.view() : RightOperand<Real>{b.data(), columns},
            .from = whole ? from.data() : nullptr,
            .from_stride = columns,
            .bias = whole ? bias.data() : nullptr,
            .relu = whole,
            .out = out.data(),
            .out_stride = columns + 3});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            double sum = whole ? double{from[r * columns + c]} + bias[c] : 0;
            for (int64_t d = 0; d < depth; ++d) {
              sum +=
                  double{left.data[r * left.row + d * left.depth]} * b[d * columns + c];
            }
            if (whole) sum = std::max(0.0, sum);
            ASSERT_NEAR(out[r * (columns + 3) + c], sum,
                        tolerance * (1 + static_cast<double>(depth)))
                << rows << " " << columns << " " << depth;
          }
          // What lies between rows is not touched.
          for (int64_t c = columns; c < columns + 3; ++c) {
            ASSERT_EQ(out[r * (columns + 3) + c], Real{7});
          }
        }
      }
    }
  }
}

TEST(Product, IsThatOfMatrices) {
  ExpectProducts<float>(1e-6);
  ExpectProducts<double>(1e-15);
}

// Rows alone or together, columns cut at panels, on every target: the same bits.
TEST(Product, HasTheSameBitsHoweverItIsCut) {
  constexpr int64_t kRows = 29, kColumns = 83, kDepth = 300;
  const auto a = Drawn<float>(kRows * kDepth, 1), b = Drawn<float>(kDepth * 96, 2);
  const auto product = [&](int64_t row, int64_t rows, int64_t column, int64_t columns,
                           float* out) {
    Multiply(ProductCall<float>{.rows = rows,
                                .columns = columns,
                                .depth = kDepth,
                                .a = {a.data() + row * kDepth, kDepth, 1},
                                .b = {b.data() + column, 96},
                                .out = out + row * kColumns + column,
                                .out_stride = kColumns});
  };
  AlignedVector<float> expected(kRows * kColumns);
  product(0, kRows, 0, kColumns, expected.data());
  ForEachTarget([&] {
    for (const int64_t rows : {1, 5, 29}) {
      for (const int64_t columns : {16, 48, 83}) {
        AlignedVector<float> out(kRows * kColumns);
        for (int64_t r = 0; r < kRows; r += rows) {
          for (int64_t c = 0; c < kColumns; c += columns) {
            product(r, std::min(rows, kRows - r), c, std::min(columns, kColumns - c),
                    out.data());
          }
        }
        ASSERT_EQ(out, expected) << rows << " " << columns;
      }
    }
  });
}

double SumOf(const std::vector<RowPairs<float>>& parts, Part sequences, int64_t output,
             int64_t input) {
  double sum = 0;
  for (const RowPairs<float>& part : parts) {
    const RowPieces rows = RowsOf(part.layout, sequences);
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t r = rows.at(i);
      sum += double{part.dy[r * part.dy_stride + output]} *
             part.x[r * part.x_stride + input];
    }
  }
  return sum;
}

// Rows of sequences one after the other, and interleaved; more shards than sequences;
// matrices of one unit and of several; units in any order.
TEST(WeightGradient, IsTheSumOverAllRows) {
  constexpr int64_t kSequences = 5;
  for (const auto& [outputs, inputs] : {std::pair(3, 5), std::pair(400, 700)}) {
    const auto dy = Drawn<float>(kSequences * 80 * outputs, 1);
    const auto x = Drawn<float>(kSequences * 80 * inputs, 2);
    for (const int64_t shards : {1, 2, 3, 5}) {
      const std::vector<RowPairs<float>> parts = {
          {{kSequences, 61, true}, dy.data(), outputs, x.data(), inputs},
          {{kSequences, 19, false}, dy.data(), outputs, x.data(), inputs}};
      AlignedVector<float> out(static_cast<size_t>(outputs * inputs), 1.0f), again;
      WeightGradientCall<float> call = {.outputs = outputs,
                                        .inputs = inputs,
                                        .parts = parts,
                                        .shards = Shards::Whole(kSequences, shards),
                                        .out = out.data()};
      GradientScratch<float> scratch, other;
      for (int64_t u = Units(call); u-- > 0;) ComputeUnit(call, u, scratch);
      for (int64_t o = 0; o < outputs; o += 13) {
        for (int64_t i = 0; i < inputs; i += 7) {
          ASSERT_NEAR(out[o * inputs + i], SumOf(parts, {0, kSequences}, o, i), 1e-3)
              << outputs << " " << shards;
        }
      }
      again.assign(out.size(), 1.0f);
      call.out = again.data();
      for (int64_t u = 0; u < Units(call); ++u) ComputeUnit(call, u, other);
      EXPECT_EQ(again, out);
    }
  }
}

TEST(SumShards, HalvesAreJoined) {
  for (const int64_t shards : {1, 2, 3, 5, 8}) {
    std::vector<std::string> slots(static_cast<size_t>(SlotsOf(shards)));
    SumShards(
        0, shards, 0,
        [&](int64_t shard, int64_t to) { slots[to] = std::to_string(shard); },
        [&](int64_t to, int64_t from) {
          slots[to] = "(" + slots[to] + slots[from] + ")";
        });
    const char* expected[] = {"",        "0", "(01)",
                              "((01)2)", "",  "(((01)2)(34))",
                              "",        "",  "(((01)(23))((45)(67)))"};
    EXPECT_EQ(slots[0], expected[shards]);
  }
}

}  // namespace
}  // namespace mnemon
