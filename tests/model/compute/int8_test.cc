// SPDX-License-Identifier: MIT
// int8 as docs/numerics.md has it, by every way to multiply it that this machine has.
#include <bit>
#include <cmath>

#include "model/compute/packed_weights.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

struct Int8Shape {
  int64_t rows, inputs, outputs;
  int64_t slice = 0;
};

std::vector<float> Multiplied(const CpuOperations& operations, const MatrixView& matrix,
                              int64_t rows, const std::vector<float>& in,
                              int workers = 1) {
  std::vector<float> out(rows * matrix.outputs, kNotANumber);
  const LinearCall call = {.rows = rows,
                           .in = {in.data(), matrix.inputs},
                           .weights = matrix,
                           .out = {out.data(), matrix.outputs}};
  std::vector<float> scratch(ScratchFloats(call));
  for (int w = 0; w < workers; ++w) {
    operations.linear(call, {w, workers}, scratch.data());
  }
  return out;
}

MatrixView Packed(PackedWeights& packed, const std::vector<float>& weights,
                  int64_t inputs, int64_t slice = 0) {
  const PlainMatrix part = {.weights = weights.data(),
                            .outputs = static_cast<int64_t>(weights.size()) / inputs};
  return Pack(packed, {&part, 1}, inputs, slice);
}

// The definition, in integers of 64 bits.
std::vector<float> Defined(const std::vector<float>& weights, const Int8Shape& shape,
                           const std::vector<float>& in, int64_t slice) {
  const auto most_of = [](const float* x, int64_t count) {
    float most = 0;
    for (int64_t k = 0; k < count; ++k) {
      if (!std::isfinite(x[k])) return kNotANumber;
      most = std::max(most, std::abs(Flush(x[k])));
    }
    return most;
  };
  const auto quantised = [](float x, float most) {
    return most > 0 ? std::lrint(x * (127.0f / most)) : 0;
  };
  std::vector<float> out;
  for (int64_t r = 0; r < shape.rows; ++r) {
    for (int64_t n = 0; n < shape.outputs; ++n) {
      const float* const w = weights.data() + n * shape.inputs;
      const float output_most = most_of(w, shape.inputs);
      float total = 0;
      for (int64_t begin = 0; begin < shape.inputs; begin += slice) {
        const int64_t width = std::min(slice, shape.inputs - begin);
        const float* const x = in.data() + r * shape.inputs + begin;
        const float row_most = most_of(x, width);
        int64_t sum = 0;
        for (int64_t k = 0; k < width; ++k) {
          sum +=
              quantised(x[k], row_most) * quantised(Flush(w[begin + k]), output_most);
        }
        total = std::fma(static_cast<float>(sum),
                         (row_most / 127.0f) * (output_most / 127.0f), total);
      }
      out.push_back(Flush(total));
    }
  }
  return out;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool none = std::isnan(a[i]) && std::isnan(b[i]);
    if (!none && std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return false;
    }
  }
  return a.size() == b.size();
}

constexpr Int8Shape kInt8Shapes[] = {
    {1, 1, 1},         {1, 3, 20},          {1, 64, 16},     {1, 200, 300},
    {2, 128, 70},      {5, 70, 33},         {13, 1100, 40},  {30, 513, 17, 17},
    {3, 96, 48, 24},   {2, 1200, 17, 1100}, {4, 100, 50, 9}, {1, 8, 20},
    {9, 20, 17},       {8, 32, 16},         {3, 33, 40},     {12, 64, 33},
    {7, 100, 20, 100}, {5, 160, 20, 8},     {6, 99, 48, 33}};

TEST(Int8, EveryWayGivesTheBitsOfTheDefinition) {
  for (const Int8Shape& shape : kInt8Shapes) {
    const std::vector<float> weights = Drawn(shape.outputs * shape.inputs, 1);
    const std::vector<float> in = Drawn(shape.rows * shape.inputs, 2, 3.0f);
    PackedWeights packed(WeightFormat::kInt8);
    const MatrixView matrix = Packed(packed, weights, shape.inputs, shape.slice);
    const std::vector<float> defined = Defined(weights, shape, in, matrix.slice);
    for (const CpuOperations& operations : AllOperations()) {
      for (const int workers : {1, 3}) {
        EXPECT_TRUE(
            SameBits(Multiplied(operations, matrix, shape.rows, in, workers), defined))
            << operations.target << " " << operations.int8 << " " << shape.rows << " x "
            << shape.inputs << " x " << shape.outputs;
      }
    }
  }
}

// Sums that 16 bits or a saturating addition could not hold.
TEST(Int8, NothingSaturates) {
  for (const int64_t inputs : {int64_t{64}, kMaxInt8Slice}) {
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> weights(20 * inputs, sign), in(2 * inputs, 1.0f);
      PackedWeights packed(WeightFormat::kInt8);
      const MatrixView matrix = Packed(packed, weights, inputs, inputs);
      const auto sum = static_cast<float>(127 * 127 * inputs);
      const std::vector<float> expected(40, sign * sum * (1 / 127.0f * (1 / 127.0f)));
      for (const CpuOperations& operations : AllOperations()) {
        EXPECT_EQ(Multiplied(operations, matrix, 2, in), expected)
            << operations.target << " " << operations.int8 << " " << inputs;
      }
    }
  }
}

TEST(Int8, SmallSlicesAreZerosAndWhatIsNoNumberStaysSo) {
  constexpr int64_t kInputs = 128;  // two slices
  const std::vector<float> weights = Drawn(20 * kInputs, 1, 1e6f);
  PackedWeights packed(WeightFormat::kInt8);
  const MatrixView matrix = Packed(packed, weights, kInputs);
  std::vector<float> in = Drawn(5 * kInputs, 2);
  // A slice below kSmallest counts for nothing; at kSmallest it counts.
  std::fill_n(in.begin(), 2 * kInputs, 0.0f);
  in[3] = 0.99f * kSmallest;
  in[70] = -0.99f * kSmallest;
  in[kInputs + 3] = kSmallest;
  in[2 * kInputs + 5] = kNotANumber;
  in[3 * kInputs + 70] = HUGE_VALF;
  in[4 * kInputs + 127] = -HUGE_VALF;
  for (const CpuOperations& operations : AllOperations()) {
    const std::vector<float> found = Multiplied(operations, matrix, 5, in);
    for (int64_t n = 0; n < 20; ++n) {
      EXPECT_EQ(found[n], 0.0f) << operations.target << " " << operations.int8;
      EXPECT_NEAR(found[20 + n], kSmallest * weights[n * kInputs + 3], 2e-11)
          << operations.target << " " << operations.int8;
      for (int64_t r = 2; r < 5; ++r) {
        EXPECT_TRUE(std::isnan(found[r * 20 + n]))
            << operations.target << " " << operations.int8 << " row " << r;
      }
    }
  }
}

TEST(Int8, WeightsAreWithin127OfTheirRow) {
  constexpr int64_t kInputs = 70, kOutputs = 18;
  std::vector<float> weights = Drawn(kOutputs * kInputs, 1, 0.3f);
  std::fill_n(weights.begin() + kInputs, kInputs, 0.5f * kSmallest);
  weights[2 * kInputs + 7] = kNotANumber;
  weights[3 * kInputs + 7] = HUGE_VALF;
  PackedWeights packed(WeightFormat::kInt8);
  const MatrixView matrix = Packed(packed, weights, kInputs);
  for (int64_t n = 0; n < kOutputs; ++n) {
    int most = 0;
    for (int64_t k = 0; k < kInputs; ++k) {
      const auto* const slice = static_cast<const uint8_t*>(matrix.panels) +
                                n / kPanel * matrix.panel_bytes +
                                k / 64 * matrix.slice_bytes;
      const int64_t in = k % 64;
      const int q = slice[in / 4 * 64 + n % kPanel * 4 + in % 4] - 128;
      most = std::max(most, std::abs(q));
      if (n > 3) {
        EXPECT_NEAR(static_cast<float>(q) * matrix.scales[n], weights[n * kInputs + k],
                    0.501f * matrix.scales[n]);
      }
    }
    EXPECT_EQ(most, n >= 1 && n <= 3 ? 0 : 127) << n;
  }
  EXPECT_EQ(matrix.scales[1], 0.0f);
  EXPECT_TRUE(std::isnan(matrix.scales[2]));
  EXPECT_TRUE(std::isnan(matrix.scales[3]));
  EXPECT_EQ(matrix.scales[kOutputs], 0.0f);  // up to whole panels
}

TEST(Int8, EveryTargetHasAWayForAllItsProcessors) {
  std::vector<std::string> targets;
  for (const CpuOperations& operations : AllCpuOperations()) {
    if (operations.int8 != std::string("vnni") && !IsReference(operations)) {
      targets.push_back(operations.target);
    }
  }
  std::vector<std::string> expected = CpuTargets();
  expected.pop_back();  // the reference
  EXPECT_EQ(targets, expected);
}

}  // namespace
}  // namespace mnemon
