// SPDX-License-Identifier: MIT
// Numbers computed by hand from the sizes; D 128, L 4, H 4, K 32, F 512, V 128 for XS.
#include "bench/kernels/floor.h"

#include "bench/kernels/model_size.h"
#include "gtest/gtest.h"
#include "model/compute/tensor_names.h"
#include "model/families/families.h"
#include "model/sequence/make_model.h"
#include "model/sequence/model.h"
#include "model/sequence/tensors.h"

namespace mnemon {
namespace {

ModelConfig Xs(std::string_view architecture) {
  return SizedConfig(architecture, "XS").value();
}

Work StepOf(const ModelConfig& config, int64_t context,
            WeightFormat format = WeightFormat::kFp32) {
  return StepWork(*DescribeModel(config), context, format);
}
Work PromptOf(const ModelConfig& config, int64_t tokens) {
  return PromptWork(*DescribeModel(config), tokens);
}
std::vector<MatrixShape> MatricesOf(const ModelConfig& config) {
  return Matrices(*DescribeModel(config));
}

TEST(StepWork, Causal) {
  // 4 (4 128^2 + 2 128 512) + 128^2 matrices; per layer 4 D biases, 4 D norms, F + D.
  const Work work = StepOf(Xs("causal"), 128);
  EXPECT_EQ(work.multiplied, 786432 + 16384);
  EXPECT_EQ(work.weight_bytes, 4 * (802816 + 6912));
  // 2 L D n + 2 L D, and a position; the embedding is the head.
  EXPECT_EQ(work.state_bytes, 4 * (131072 + 1024 + 128));
}

TEST(Matrices, ShareAnInputOrAreApart) {
  const std::vector<MatrixShape> causal = MatricesOf(Xs("causal"));
  ASSERT_EQ(causal.size(), 4u * 4 + 1);
  const int64_t expected[][2] = {{384, 128}, {128, 128}, {512, 128}, {128, 512}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(causal[i].outputs, expected[i][0]);
    EXPECT_EQ(causal[i].inputs, expected[i][1]);
  }
  EXPECT_EQ(causal.back().outputs, 128);
  // The output projection has a slice for each head, K inputs wide.
  for (int i = 0; i < 17; ++i) EXPECT_EQ(causal[i].slice, i % 4 == 1 ? 32 : 0) << i;
  // Queries alone; keys and values of all layers at once.
  const std::vector<MatrixShape> feedback = MatricesOf(Xs("feedback"));
  EXPECT_EQ(feedback[0].outputs, 128);
  EXPECT_EQ(feedback[16].outputs, 2 * 4 * 128);
}

TEST(StepWork, Int8HasScalesAndLeavesTheAttentionOfFastWeightsAlone) {
  const Work causal = StepOf(Xs("causal"), 128, WeightFormat::kInt8);
  EXPECT_EQ(causal.int8, causal.multiplied);
  // 4 (384 + 128 + 512 + 128) + 128 outputs; the embedding is no longer the head.
  EXPECT_EQ(causal.weight_bytes, 802816 + 4 * (4736 + 6912));
  EXPECT_EQ(causal.state_bytes, 4 * (131072 + 1024 + 2 * 128));
  const Work fast = StepOf(Xs("fast_weights"), 128, WeightFormat::kInt8);
  EXPECT_EQ(fast.multiplied - fast.int8, 4 * (4 * 128 + 4) * 128);
}

TEST(StepWork, Int8LeavesOutputsOfNarrowHeadsAlone) {
  ModelConfig config = Xs("causal");
  config.heads = 32;  // 4 wide
  const Work narrow = StepOf(config, 128, WeightFormat::kInt8);
  EXPECT_EQ(narrow.multiplied - narrow.int8, 4 * 128 * 128);
  config.heads = 16;
  EXPECT_EQ(StepOf(config, 128, WeightFormat::kInt8).int8, narrow.multiplied);
}

TEST(StepWork, AHeadOfItsOwnHasABias) {
  ModelConfig config = Xs("causal");
  const Work tied = StepOf(config, 128);
  config.tie_head = false;
  const Work free = StepOf(config, 128);
  EXPECT_EQ(free.multiplied, tied.multiplied);
  EXPECT_EQ(free.weight_bytes - tied.weight_bytes, 4 * 128);
  EXPECT_EQ(free.state_bytes - tied.state_bytes, 4 * 128);
}

TEST(StepWork, TransformerXl) {
  const Work work = StepOf(Xs("transformer_xl"), 128);
  EXPECT_EQ(work.multiplied, 802816);
  // 129 distances: 4 layers of 129 rows of D keys and H biases, and a query bias.
  EXPECT_EQ(work.weight_bytes, 4 * (802816 + 5888 + 128 + 68624));
  EXPECT_EQ(work.state_bytes, 4 * (131072 + 1024 + 128));
}

TEST(StepWork, TransformerXlSeesItsMemoryOnly) {
  const ModelConfig config = Xs("transformer_xl");
  EXPECT_EQ(StepOf(config, 1000), StepOf(config, 256));
  EXPECT_NE(StepOf(config, 255), StepOf(config, 256));
}

TEST(StepWork, Feedback) {
  const Work work = StepOf(Xs("feedback"), 128);
  EXPECT_EQ(work.multiplied, 802816);
  // As transformer_xl, with L + 1 mixing weights and without distance 0.
  EXPECT_EQ(work.weight_bytes, 4 * (802816 + 5893 + 128 + 68096));
  EXPECT_EQ(work.state_bytes, 4 * (131072 + 1024 + 128));
}

TEST(StepWork, FeedbackShared) {
  const Work work = StepOf(Xs("feedback_shared"), 128);
  EXPECT_EQ(work.multiplied, 688128 + 16384);
  EXPECT_EQ(work.weight_bytes, 4 * (704512 + 5381 + 128 + 68096));
  // One pair of keys and values, read by each layer.
  EXPECT_EQ(work.state_bytes, 4 * (131072 + 256 + 128));
}

TEST(StepWork, FastWeights) {
  const Work work = StepOf(Xs("fast_weights"), 128);
  EXPECT_EQ(work.multiplied, 788480 + 16384);
  EXPECT_EQ(work.weight_bytes, 4 * (804864 + 4352 + 128));
  // L D 2 K, read and written.
  EXPECT_EQ(work.state_bytes, 4 * (2 * 32768 + 128));
  EXPECT_EQ(StepOf(Xs("fast_weights"), 1), work);
}

TEST(StepWork, FastWeightsVariants) {
  ModelConfig config = Xs("fast_weights");
  const Work delta = StepOf(config, 1);
  config.update_rule = UpdateRule::kSum;
  EXPECT_EQ(delta.multiplied - StepOf(config, 1).multiplied, 4 * 4 * 128);
  config.nu = 3;
  config.normalise = Normalise::kZ;
  // W [H, K, 6 K] and z [H, 6 K] per layer.
  EXPECT_EQ(StepOf(config, 1).state_bytes,
            4 * (2 * 4 * (4 * 32 * 192 + 4 * 192) + 128));
}

// What a step reads of the tensors that the model really has.
int64_t FloatsRead(Model& model, const ModelConfig& config, int64_t distances) {
  int64_t floats = 0;
  for (const TensorView& view : ViewWeights(model)) {
    int64_t count = 1;
    for (const int64_t size : view.shape) count *= size;
    const auto is = [&](const char* part) {
      return view.name.find(part) != view.name.npos;
    };
    if (is("embed.weight") && !config.tie_head) continue;
    if (is("positions.weight")) continue;
    if (is(names::kAttnNorm) && config.architecture == "fast_weights") continue;
    if (is(names::kRelativeKey) || is(names::kRelativeBias)) {
      count = count / view.shape[0] * distances;
    }
    floats += count;
  }
  return floats;
}

TEST(StepWork, AgreesWithTheTensorsOfEachArchitecture) {
  for (const std::string& architecture : BenchArchitectures()) {
    for (const std::string_view size : {"XS", "SEED"}) {
      const ModelConfig config = SizedConfig(architecture, size).value();
      const std::unique_ptr<Model> model = MakeModel(config).value();
      const int64_t distances = architecture == "transformer_xl" ? 21 : 20;
      EXPECT_EQ(StepOf(config, 20).weight_bytes,
                4 * FloatsRead(*model, config, distances))
          << architecture << " " << size;
    }
  }
}

TEST(PromptWork, OnePassWhereAPromptGoesAsAWhole) {
  const Work causal = PromptOf(Xs("causal"), 100);
  EXPECT_EQ(causal.multiplied, 100 * 786432 + 16384);
  EXPECT_EQ(causal.weight_bytes, 4 * (802816 + 6912));
  EXPECT_EQ(causal.state_bytes, 4 * (100 * 1024 + 100 * 128));
  // The memory keeps 256 of 300 tokens.
  const Work xl = PromptOf(Xs("transformer_xl"), 300);
  EXPECT_EQ(xl.state_bytes, 4 * (256 * 1024 + 300 * 128));
  EXPECT_EQ(xl.weight_bytes, StepOf(Xs("transformer_xl"), 256).weight_bytes);
  const Work fast = PromptOf(Xs("fast_weights"), 100);
  EXPECT_EQ(fast.state_bytes, 4 * (32768 + 100 * 128));
}

TEST(PromptWork, FeedbackGoesTokenByToken) {
  const Work work = PromptOf(Xs("feedback"), 3);
  EXPECT_EQ(work.multiplied, 3 * 786432 + 16384);
  // 3 times matrices and vectors, 0 + 1 + 2 rows of positions per layer, head once.
  EXPECT_EQ(work.weight_bytes,
            4 * (3 * (786432 + 5893) + 4 * (3 * 132 + 3 * 128) + 16384 + 128));
  EXPECT_EQ(work.state_bytes, 4 * (3 * (1024 + 128) + (0 + 1 + 2) * 1024));
}

TEST(PromptWork, OfOneTokenIsAStep) {
  for (const std::string& architecture : BenchArchitectures()) {
    const ModelConfig config = Xs(architecture);
    EXPECT_EQ(PromptOf(config, 1).weight_bytes, StepOf(config, 0).weight_bytes)
        << architecture;
    EXPECT_EQ(PromptOf(config, 1).multiplied, StepOf(config, 0).multiplied)
        << architecture;
  }
}

TEST(FloorOf, IsTheLargerOfBytesAndArithmetic) {
  const Work work{.weight_bytes = 100, .state_bytes = 10, .multiplied = 1000};
  EXPECT_EQ(WorkingSet(work, 4), 140);
  EXPECT_DOUBLE_EQ(OperationsOf(work, 4), 8000);
  const Floor slow_arithmetic =
      FloorOf(work, 4, {.bytes_per_second = 70, .flops_per_second = 2000});
  EXPECT_DOUBLE_EQ(slow_arithmetic.bytes_seconds, 2);
  EXPECT_DOUBLE_EQ(slow_arithmetic.flop_seconds, 4);
  EXPECT_DOUBLE_EQ(slow_arithmetic.seconds(), 4);
  const Floor slow_memory =
      FloorOf(work, 4, {.bytes_per_second = 7, .flops_per_second = 2000});
  EXPECT_DOUBLE_EQ(slow_memory.seconds(), 20);
  // What is in int8 has its own rate.
  const Floor mixed = FloorOf(
      {.weight_bytes = 1, .multiplied = 1000, .int8 = 900}, 4,
      {.bytes_per_second = 70, .flops_per_second = 2000, .int8_per_second = 7200});
  EXPECT_DOUBLE_EQ(mixed.flop_seconds, 0.4 + 1);
}

}  // namespace
}  // namespace mnemon
