// SPDX-License-Identifier: MIT
#include "model/compute/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

float FromBf16(uint16_t value) {
  const uint32_t bits = uint32_t{value} << 16;
  float out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

TEST(PackedWeights, PanelsOf16OutputsBelowEachOther) {
  constexpr int64_t kInputs = 3;
  const std::vector<float> a = Drawn(10 * kInputs, 1), b = Drawn(10 * kInputs, 2);
  const std::vector<float> bias = Drawn(10, 3);
  PackedWeights packed(WeightFormat::kFp32);
  const PlainMatrix parts[] = {
      {.weights = a.data(), .bias = nullptr, .outputs = 10},
      {.weights = b.data(), .bias = bias.data(), .outputs = 10}};
  const MatrixView view = Pack(packed, parts, kInputs);
  EXPECT_EQ(view.outputs, 20);
  EXPECT_EQ(view.inputs, kInputs);
  const auto* panels = static_cast<const float*>(view.panels);
  for (int64_t n = 0; n < 32; ++n) {
    for (int64_t k = 0; k < kInputs; ++k) {
      float expected = 0;
      if (n < 10) expected = a[n * kInputs + k];
      if (n >= 10 && n < 20) expected = b[(n - 10) * kInputs + k];
      EXPECT_EQ(panels[(n / 16 * kInputs + k) * 16 + n % 16], expected);
    }
    EXPECT_EQ(view.bias[n], n >= 10 && n < 20 ? bias[n - 10] : 0.0f);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(panels) % 64, 0u);
  EXPECT_GE(packed.bytes(), 2 * 16 * kInputs * 4);
}

TEST(PackedWeights, NoBiasWhereNoPartHasOne) {
  const float weight = 2;
  PackedWeights packed(WeightFormat::kBf16);
  const PlainMatrix part = {.weights = &weight, .bias = nullptr, .outputs = 1};
  const MatrixView view = Pack(packed, {&part, 1}, 1);
  EXPECT_EQ(view.bias, nullptr);
  EXPECT_EQ(FromBf16(static_cast<const uint32_t*>(view.panels)[0] & 0xFFFF), 2.0f);
}

// Where rows end within a panel, and begin within one.
TEST(PackedWeights, RowsThatAreInt8AlreadyLieAsThoseThatBecomeIt) {
  constexpr int64_t kInputs = 70, kOutputs = 37;
  std::vector<float> weights = Drawn(kOutputs * kInputs, 1);
  std::fill_n(weights.begin(), kInputs, 0.0f);
  weights[kInputs] = 0x1p-49f;  // flushed
  PackedWeights packed(WeightFormat::kInt8);
  const MatrixView expected =
      packed.Room(WeightFormat::kInt8, kOutputs, kInputs, /*bias=*/false);
  const MatrixView found =
      packed.Room(WeightFormat::kInt8, kOutputs, kInputs, /*bias=*/false);
  PackedWeights::Fill(expected, 0, weights);
  std::vector<int8_t> numbers(weights.size());
  std::vector<float> scales;
  const auto row = [](int64_t r) { return static_cast<size_t>(r * kInputs); };
  for (int64_t r = 0; r < kOutputs; ++r) {
    const auto floats = std::span<const float>(weights).subspan(row(r), kInputs);
    int8_t* const to = numbers.data() + row(r);
    scales.push_back(QuantiseRow(floats, to));
    int most = 0;
    for (int64_t k = 0; k < kInputs; ++k) {
      most = std::max(most, std::abs(int{to[k]}));
      EXPECT_NEAR(static_cast<float>(to[k]) * scales[r], floats[k], 0.501f * scales[r]);
    }
    EXPECT_EQ(most, r == 0 ? 0 : 127);
  }
  EXPECT_EQ(scales[0], 0.0f);
  for (const auto& [begin, end] : {std::pair{0, 5}, {5, 30}, {30, 37}}) {
    PackedWeights::FillInt8Rows(
        found, begin, std::span(numbers).subspan(row(begin), row(end - begin)));
    PackedWeights::FillScales(found, begin,
                              std::span(scales).subspan(begin, end - begin));
  }
  EXPECT_EQ(std::memcmp(found.panels, expected.panels,
                        expected.panel_count() * expected.panel_bytes),
            0);
  EXPECT_EQ(std::memcmp(found.scales, expected.scales,
                        expected.panel_count() * kPanel * sizeof(float)),
            0);
}

TEST(PackedWeights, RowsThatAreBf16AlreadyLieAsThoseThatBecomeIt) {
  constexpr int64_t kOutputs = 37;
  for (const int64_t inputs : {1, 71, 1030}) {
    std::vector<float> weights = Drawn(kOutputs * inputs, 1);
    std::vector<uint16_t> bits;
    for (float& weight : weights) {
      bits.push_back(ToBf16(weight));
      weight = FromBf16(bits.back());
    }
    // Those that are flushed, and their neighbours that are not.
    const float special[] = {0x1p-48f, -0x1p-48f, 0x1.FEp-49f, -0x1.FEp-49f, -0.0f};
    for (size_t i = 0; i < std::size(special); ++i) {
      weights[7 * i] = special[i];
      bits[7 * i] = ToBf16(special[i]);
    }
    PackedWeights packed(WeightFormat::kBf16);
    const auto room = [&] {
      return packed.Room(WeightFormat::kBf16, kOutputs, inputs, /*bias=*/false);
    };
    const MatrixView expected = room(), found = room();
    PackedWeights::Fill(expected, 0, weights);
    for (const auto& [begin, end] : {std::pair{0, 5}, {5, 30}, {30, 37}}) {
      PackedWeights::FillBf16Rows(
          found, begin,
          std::span(bits).subspan(begin * inputs, (end - begin) * inputs));
    }
    EXPECT_EQ(std::memcmp(found.panels, expected.panels,
                          expected.panel_count() * expected.panel_bytes),
              0)
        << inputs;
  }
}

TEST(ToBf16, IsTheNearestTiesToEven) {
  for (const float value : Drawn(10000, 1, 100.0f)) {
    const float found = FromBf16(ToBf16(value));
    const float below = FromBf16(static_cast<uint16_t>(ToBf16(value) - 1));
    const float above = FromBf16(static_cast<uint16_t>(ToBf16(value) + 1));
    EXPECT_LE(std::abs(found - value), std::abs(below - value));
    EXPECT_LE(std::abs(found - value), std::abs(above - value));
  }
  EXPECT_EQ(ToBf16(1.0f), 0x3F80);
  EXPECT_EQ(ToBf16(1.0f + 1.0f / 256), 0x3F80);  // between 3F80 and 3F81
  EXPECT_EQ(ToBf16(1.0f + 3.0f / 256), 0x3F82);  // between 3F81 and 3F82
  EXPECT_EQ(ToBf16(-0.0f), 0x8000);
  EXPECT_EQ(ToBf16(HUGE_VALF), 0x7F80);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(kNotANumber))));
}

TEST(PackedWeights, MakesZerosWithMargins) {
  PackedWeights packed(WeightFormat::kFp32);
  const float* zeros = packed.Make(7, /*margin=*/16);
  for (int i = -16; i < 7 + 16; ++i) EXPECT_EQ(zeros[i], 0.0f);
}

}  // namespace
}  // namespace mnemon
