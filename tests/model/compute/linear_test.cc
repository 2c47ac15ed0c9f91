// SPDX-License-Identifier: MIT
#include "model/compute/packed_weights.h"
#include "tests/model/compute/targets.h"

namespace mnemon {
namespace {

struct LinearShape {
  int64_t rows, inputs, outputs;
  int64_t slice = 0;  // as of PackedWeights::Room
};

struct LinearOptions {
  WeightFormat format = WeightFormat::kFp32;
  Act act = Act::kNone;
  bool norm = false, bias = false, gate = false, residual = false, pick = false;
};

// A linear call with numbers of its own.
class Layer {
 public:
  Layer(const LinearShape& shape, const LinearOptions& options)
      : shape_(shape), options_(options), packed_(options.format) {
    in_ = Drawn(2 * shape.rows * shape.inputs, 1);
    gain_ = Drawn(shape.inputs, 2);
    shift_ = Drawn(shape.inputs, 3);
    residual_ = Drawn(shape.rows * shape.outputs, 4);
    weights_ = Pack(5);
    gate_ = Pack(6);
    for (int64_t r = 0; r < shape.rows; ++r) {
      pick_.push_back(static_cast<int32_t>((r * 7 + 3) % (2 * shape.rows)));
    }
  }

  // Rows first .. first+count-1 by `workers` workers, one after the other.
  std::vector<float> Run(const CpuOperations& operations, int64_t first, int64_t count,
                         int workers = 1) const {
    std::vector<float> out(count * shape_.outputs, kNotANumber);
    LinearCall call = {.rows = count, .weights = weights_, .act = options_.act};
    call.in = {in_.data() + (options_.pick ? 0 : first * shape_.inputs), shape_.inputs};
    if (options_.pick) call.pick = pick_.data() + first;
    if (options_.norm) call.norm = {.gain = gain_.data(), .bias = shift_.data()};
    if (options_.act >= Act::kGeluTanh) {
      call.norm.eps = 1e-3f;
      call.norm.centred = false;
    }
    if (options_.gate) call.gate = &gate_;
    if (options_.residual) {
      call.residual = {residual_.data() + first * shape_.outputs, shape_.outputs};
    } else if (options_.act == Act::kTanh) {
      call.cap = 0.75f;
      call.scale = 1.5f;
    }
    call.out = {out.data(), shape_.outputs};
    std::vector<float> scratch(ScratchFloats(call));
    for (int w = 0; w < workers; ++w) {
      operations.linear(call, {w, workers}, scratch.data());
    }
    return out;
  }

 private:
  MatrixView Pack(uint32_t seed) {
    const std::vector<float> weights = Drawn(shape_.outputs * shape_.inputs, seed);
    const std::vector<float> bias = Drawn(shape_.outputs, seed + 10);
    const PlainMatrix part = {.weights = weights.data(),
                              .bias = options_.bias ? bias.data() : nullptr,
                              .outputs = shape_.outputs};
    return mnemon::Pack(packed_, {&part, 1}, shape_.inputs, shape_.slice);
  }

  const LinearShape shape_;
  const LinearOptions options_;
  PackedWeights packed_;
  std::vector<float> in_, gain_, shift_, residual_;
  MatrixView weights_, gate_;
  std::vector<int32_t> pick_;
};

constexpr LinearShape kLinearShapes[] = {
    {1, 1, 1},        {1, 16, 16},       {1, 33, 130},   {2, 128, 7},
    {3, 40, 200},     {7, 5, 48},        {13, 64, 33},   {25, 17, 96},
    {1, 300, 512},    {5, 1024, 40},     {70, 96, 80},   {17, 700, 16},
    {7, 513, 40},     {200, 300, 20},    {5, 63, 40, 9}, {1, 96, 300, 32},
    {14, 96, 50, 24}, {9, 700, 40, 333}, {1, 1100, 70}};

std::vector<LinearOptions> AllLinearOptions() {
  std::vector<LinearOptions> all;
  for (const WeightFormat format : kFormats) {
    for (const Act act : {Act::kNone, Act::kRelu, Act::kGelu, Act::kSigmoid,
                          Act::kGeluTanh, Act::kSilu, Act::kTanh}) {
      for (int bits = 0; bits < (act == Act::kTanh ? 16 : 32); ++bits) {
        all.push_back({.format = format,
                       .act = act,
                       .norm = (bits & 1) != 0,
                       .bias = (bits & 2) != 0,
                       .gate = (bits & 4) != 0,
                       .residual = (bits & 8) != 0,
                       .pick = (bits & 16) != 0});
      }
    }
  }
  return all;
}

using LinearTest = TargetTest;

TEST_P(LinearTest, AgreesWithTheReference) {
  int i = 0;
  for (const LinearOptions& options : AllLinearOptions()) {
    const LinearShape& shape = kLinearShapes[i++ % std::size(kLinearShapes)];
    const Layer layer(shape, options);
    const std::vector<float> found = layer.Run(target(), 0, shape.rows);
    EXPECT_LE(Difference(found, layer.Run(reference(), 0, shape.rows)), 1e-5) << i;
    EXPECT_EQ(found, layer.Run(best(), 0, shape.rows)) << i;
  }
}

TEST_P(LinearTest, ARowHasItsBitsWhateverTheRowsAndWorkers) {
  int i = 0;
  for (const LinearOptions& options : AllLinearOptions()) {
    const LinearShape& shape = kLinearShapes[i++ % std::size(kLinearShapes)];
    if (emulated() && i % 23 > 0) continue;
    const Layer layer(shape, options);
    const std::vector<float> all = layer.Run(target(), 0, shape.rows);
    for (const int workers : {2, 3, 4, 9}) {
      ASSERT_EQ(layer.Run(target(), 0, shape.rows, workers), all) << i;
    }
    for (int64_t r = 0; r < shape.rows; ++r) {
      const auto from = all.begin() + r * shape.outputs;
      ASSERT_EQ(layer.Run(target(), r, 1, 2),
                std::vector<float>(from, from + shape.outputs))
          << i << " row " << r;
    }
  }
}

// Some panels of a matrix are a matrix.
TEST_P(LinearTest, APanelHasItsBitsWhateverTheOthers) {
  constexpr int64_t kInputs = 37, kOutputs = 90, kPanels = 6;
  const std::vector<float> in = Drawn(3 * kInputs, 1);
  const std::vector<float> weights = Drawn(kOutputs * kInputs, 2);
  const std::vector<float> bias = Drawn(kOutputs, 3);
  for (const WeightFormat format : kFormats) {
    PackedWeights packed(format);
    const PlainMatrix part = {
        .weights = weights.data(), .bias = bias.data(), .outputs = kOutputs};
    const MatrixView matrix = Pack(packed, {&part, 1}, kInputs);
    const auto run = [&](const MatrixView& some, float* out) {
      LinearCall call = {.rows = 3, .weights = some};
      call.in = {in.data(), kInputs};
      call.out = {out, kOutputs};
      std::vector<float> scratch(ScratchFloats(call));
      target().linear(call, {}, scratch.data());
    };
    std::vector<float> whole(3 * kOutputs), divided(3 * kOutputs, kNotANumber);
    run(matrix, whole.data());
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>{0, 1}, {1, 4}, {4, 6}}) {
      run(PanelsOf(matrix, {begin, end}), divided.data() + begin * kPanel);
    }
    EXPECT_EQ(divided, whole);
    EXPECT_EQ(PanelsOf(matrix, {kPanels - 1, kPanels}).outputs, 10);
  }
}

TEST_P(LinearTest, WhatIsNotANumberStaysSo) {
  for (const Act act : {Act::kNone, Act::kRelu, Act::kGelu, Act::kSigmoid,
                        Act::kGeluTanh, Act::kSilu, Act::kTanh}) {
    PackedWeights packed(WeightFormat::kFp32);
    const std::vector<float> weights(16, kNotANumber);
    const PlainMatrix part = {
        .weights = weights.data(), .bias = nullptr, .outputs = 16};
    const float in = 1;
    std::vector<float> out(16);
    const LinearCall call = {.rows = 1,
                             .in = {&in, 1},
                             .weights = Pack(packed, {&part, 1}, 1),
                             .act = act,
                             .out = {out.data(), 16}};
    std::vector<float> scratch(ScratchFloats(call));
    target().linear(call, {}, scratch.data());
    for (const float value : out) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(LinearTest, NoRowsNoOutput) {
  const Layer layer({4, 16, 16}, {});
  EXPECT_TRUE(layer.Run(target(), 0, 0).empty());
}

TEST(LinearReference, IsThePlainSum) {
  PackedWeights packed(WeightFormat::kFp32);
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6}, bias = {10, 20};
  const PlainMatrix part = {
      .weights = weights.data(), .bias = bias.data(), .outputs = 2};
  const MatrixView matrix = Pack(packed, {&part, 1}, 3);
  const std::vector<float> in = {1, -1, 2};
  std::vector<float> out(2);
  ReferenceOperations().linear(
      {.rows = 1, .in = {in.data(), 3}, .weights = matrix, .out = {out.data(), 2}}, {},
      nullptr);
  EXPECT_EQ(out, (std::vector<float>{15, 31}));
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearTest, testing::ValuesIn(TargetsUnderTest()),
                         TargetName);

}  // namespace
}  // namespace mnemon
