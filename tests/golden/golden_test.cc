// SPDX-License-Identifier: MIT
// The numbers of the reference implementation, within the tolerances that come with
// them.
#include <array>
#include <cmath>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "gtest/gtest.h"
#include "model/blocks/attention/attend_torch.h"
#include "model/blocks/attention/score_mask_torch.h"
#include "model/blocks/ends/forward_torch.h"
#include "model/blocks/fast_weights/delta_rule_torch.h"
#include "model/sequence/default_decoder.h"
#include "model/sequence/make_model.h"
#include "model/sequence/runtime.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/golden_optimiser.h"

namespace mnemon {
namespace {

// Tiny tensors on a machine that runs other tests too: threads would only wait for each
// other.
class OneThread final : public testing::Environment {
 public:
  void SetUp() override { InitTensorRuntime(1); }
};
const testing::Environment* const kOneThread =
    testing::AddGlobalTestEnvironment(new OneThread);

constexpr double kLossTolerance = 5e-4;

double MaxDifference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  if (a.sizes() != b.sizes()) return INFINITY;
  return (a.to(at::kCPU) - b.to(at::kCPU)).abs().max().item<double>();
}

at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

ForwardResult Forward(const Model& model, const at::Tensor& tokens,
                      const Carry& carry = {}, const ForwardOptions& options = {}) {
  absl::StatusOr<ForwardResult> result =
      model.Forward(tokens.contiguous(), carry, options);
  EXPECT_TRUE(result.ok()) << result.status();
  result->logits = result->logits.to(at::kCPU);
  return *std::move(result);
}

// All segments from an empty memory, logits joined.
ForwardResult ForwardAll(const Model& model, const GoldenCase& golden) {
  if (!golden.autoregressive()) return Forward(model, golden.Get("tokens"));
  std::vector<at::Tensor> logits;
  Carry carry;
  int64_t begin = 0;
  for (const int64_t length : golden.Segments()) {
    ForwardResult part =
        Forward(model, golden.Get("tokens").narrow(1, begin, length), carry);
    logits.push_back(part.logits);
    carry = std::move(part.carry);
    begin += length;
  }
  return {.logits = at::cat(logits, 1), .carry = std::move(carry)};
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::optional<std::string> directory = FindGolden(GetParam());
    if (!directory) {
      GTEST_SKIP() << "needs golden/" << GetParam()
                   << ": set MNEMON_TEST_DATA to the folder that holds golden/";
    }
    absl::StatusOr<GoldenCase> golden = GoldenCase::Load(*directory);
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = std::make_unique<GoldenCase>(*std::move(golden));
    model_ = Import(false);
  }

  std::unique_ptr<Model> Import(bool convert_000) const {
    absl::StatusOr<std::unique_ptr<Model>> model = golden_->Import(convert_000);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  void CheckLosses(const std::string& array, const nlohmann::json& settings) {
    const at::Tensor expected = golden_->Get(array);
    GoldenOptimiser optimiser(*model_, settings);
    for (int64_t k = 0; k < expected.numel(); ++k) {
      const at::Tensor loss =
          CrossEntropy(ForwardAll(*model_, *golden_).logits, golden_->Get("targets"));
      EXPECT_NEAR(loss.item<double>(), expected[k].item<double>(), kLossTolerance)
          << array << " " << k;
      loss.backward();
      optimiser.Update();
    }
  }

  std::unique_ptr<GoldenCase> golden_;
  std::unique_ptr<Model> model_;
};

TEST_P(GoldenTest, LogitsLossAndState) {
  const ForwardResult result = ForwardAll(*model_, *golden_);
  EXPECT_LE(MaxDifference(result.logits, golden_->Get("logits")), 1e-4);
  EXPECT_NEAR(CrossEntropy(result.logits, golden_->Get("targets")).item<double>(),
              golden_->Get("loss").item<double>(), 2e-5);
  const auto& entries = model_->carry_spec().entries;
  for (size_t i = 0; i < result.carry.tensors.size(); ++i) {
    const std::string array = "state." + entries[i].name;
    if (!golden_->Has(array)) continue;  // causal keys and values are our own idea
    EXPECT_LE(MaxDifference(result.carry.tensors[i], golden_->Get(array)), 1e-4)
        << array;
  }
}

TEST_P(GoldenTest, SharedKeysAndValuesFollowFromTheMemory) {
  if (!golden_->Has("state.key")) return;
  const at::Tensor memory = ForwardAll(*model_, *golden_).carry.tensors[0];
  int seen = 0;
  model_->Visit([&](const std::string& name, at::Tensor& weight) {
    const std::string array = name == "memory.key.weight"     ? "state.key"
                              : name == "memory.value.weight" ? "state.value"
                                                              : "";
    if (array.empty()) return;
    ++seen;
    const at::Tensor expected = golden_->Get(array);
    EXPECT_LE(
        MaxDifference(at::linear(memory, weight).view(expected.sizes()), expected),
        1e-4);
  });
  EXPECT_EQ(seen, 2);
}

TEST_P(GoldenTest, Gradients) {
  CrossEntropy(ForwardAll(*model_, *golden_).logits, golden_->Get("targets"))
      .backward();
  auto expected = golden_->Gradients();
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::map<std::string, at::Tensor> by_name(expected->begin(), expected->end());
  double squares = 0.0;
  model_->Visit([&](const std::string& name, at::Tensor& weight) {
    EXPECT_EQ(weight.grad().defined(), by_name.contains(name)) << name;
    if (!weight.grad().defined() || !by_name.contains(name)) return;
    const at::Tensor& gradient = by_name[name];
    EXPECT_LE(MaxDifference(weight.grad(), gradient),
              2e-4 * gradient.abs().max().item<double>() + 1e-6)
        << name;
    squares += weight.grad().square().sum().item<double>();
  });
  const double norm = golden_->Get("grad_norm").item<double>();
  EXPECT_NEAR(std::sqrt(squares), norm, 2e-4 * norm);
}

TEST_P(GoldenTest, TenTrainingLosses) {
  CheckLosses("train.losses", golden_->config()["train"]);
}

TEST_P(GoldenTest, TenTrainingLossesOfTheReferenceOptimiser) {
  if (!golden_->Has("labml_train.losses")) return;
  CheckLosses("labml_train.losses", golden_->config()["labml_train"]);
}

TEST_P(GoldenTest, TenTrainingLossesUnderASchedule) {
  if (!golden_->Has("scheduled_train.losses")) return;
  CheckLosses("scheduled_train.losses", golden_->config()["scheduled_train"]);
}

TEST_P(GoldenTest, LossesWithMemoryKeptOverUpdates) {
  if (!golden_->Has("stream.losses")) return;
  const at::Tensor expected = golden_->Get("stream.losses");
  GoldenOptimiser optimiser(*model_, golden_->config()["train"]);
  Carry carry;
  int64_t begin = 0, index = 0;
  for (const int64_t length : golden_->Segments()) {
    ForwardResult part =
        Forward(*model_, golden_->Get("tokens").narrow(1, begin, length), carry);
    const at::Tensor loss =
        CrossEntropy(part.logits, golden_->Get("targets").narrow(1, begin, length));
    EXPECT_NEAR(loss.item<double>(), expected[index++].item<double>(), kLossTolerance);
    loss.backward();
    optimiser.Update();
    carry = part.carry.Detached();
    begin += length;
  }
}

TEST_P(GoldenTest, GreedyContinuation) {
  if (!golden_->autoregressive()) return;
  at::NoGradGuard no_grad;
  const at::Tensor expected = golden_->Get("greedy");
  ForwardResult result = ForwardAll(*model_, *golden_);
  for (int64_t i = 0; i < expected.size(1); ++i) {
    const at::Tensor next =
        result.logits.narrow(1, result.logits.size(1) - 1, 1).argmax(-1);  // [B, 1]
    EXPECT_TRUE(next.equal(expected.narrow(1, i, 1))) << "token " << i;
    result = Forward(*model_, next, result.carry);
  }
}

TEST_P(GoldenTest, OlderFeedbackFormConverts) {
  if (golden_->config().value("seed_form", "") != "000") return;
  const std::unique_ptr<Model> converted = Import(true);
  EXPECT_FALSE(FirstBlock<Attention>(converted->description())->relative()->tied);
  EXPECT_LE(
      MaxDifference(ForwardAll(*converted, *golden_).logits, golden_->Get("logits")),
      1e-4);
  int seen = 0;
  converted->Visit([&](const std::string& name, at::Tensor& weight) {
    if (name.find("relative_bias") == std::string::npos) return;
    const std::string array = "mapped." + std::to_string(seen++) + ".key_pos_bias";
    EXPECT_LE(MaxDifference(weight, golden_->Get(array)), 1e-5) << array;
  });
  EXPECT_EQ(seen, converted->description().depth());
}

// How many tokens see at most M+1 keys, so that stepping is the same function.
int64_t TokensThatStep(const ModelDescription& model, int64_t time) {
  const auto* const attention = FirstBlock<Attention>(model);
  const bool segments = attention != nullptr && attention->whole_segments;
  return segments ? std::min(time, *attention->window + 1) : time;
}

TEST_P(GoldenTest, StepForm) {
  if (!golden_->autoregressive()) return;
  const at::Tensor tokens = golden_->Get("tokens");
  const int64_t batch = tokens.size(0), vocab = model_->description().vocab;
  const int64_t time = TokensThatStep(model_->description(), tokens.size(1));
  RequireGradients(*model_, false);
  const std::unique_ptr<Decoder> decoder = MakeDefaultDecoder(*model_);
  auto arena =
      StateArena::Create(decoder->spec(), {.slots = static_cast<int32_t>(batch)});
  ASSERT_TRUE(arena.ok()) << arena.status();
  std::vector<std::vector<int32_t>> rows(batch);
  std::vector<Segment> segments;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < time; ++t) {
      rows[b].push_back(tokens[b][t].item<int32_t>());
    }
    const absl::StatusOr<int32_t> slot = (*arena)->Acquire();
    ASSERT_TRUE(slot.ok()) << slot.status();
    segments.push_back({.slot = *slot, .tokens = rows[b], .logits = LogitsMode::kAll});
  }
  const at::Tensor logits = at::empty({batch, time, vocab});
  ASSERT_TRUE(decoder->Step(segments, **arena, logits.data_ptr<float>()).ok());
  EXPECT_LE(MaxDifference(logits, golden_->Get("logits").narrow(1, 0, time)), 1e-4);
}

TEST_P(GoldenTest, PredictionsAndAttentionMaps) {
  if (golden_->autoregressive()) return;
  const at::Tensor tokens = golden_->Get("tokens");
  const std::vector<int32_t> ids(tokens.data_ptr<int64_t>(),
                                 tokens.data_ptr<int64_t>() + tokens.numel());
  absl::StatusOr<std::unique_ptr<Predictor>> predictor = MakePredictor(*model_);
  ASSERT_TRUE(predictor.ok()) << predictor.status();
  for (const auto& [maps, array] : {std::pair(AttentionMaps::kUsed, "attention_used"),
                                    {AttentionMaps::kNotebook, "attention"}}) {
    const absl::StatusOr<Predictor::Output> output =
        (*predictor)->Predict({.tokens = ids, .batch = tokens.size(0), .maps = maps});
    ASSERT_TRUE(output.ok()) << output.status();
    const auto check = [](const UnsetFloats& found, const at::Tensor& expected) {
      ASSERT_EQ(static_cast<int64_t>(found.size()), expected.numel());
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_NEAR(found[i], expected.data_ptr<float>()[i], 1e-4) << i;
      }
    };
    check(output->logits, golden_->Get("logits"));
    ASSERT_EQ(static_cast<int64_t>(output->maps.size()), model_->description().depth());
    for (size_t i = 0; i < output->maps.size(); ++i) {
      check(output->maps[i],
            golden_->Get(std::string(array) + ".layer" + std::to_string(i)));
    }
  }
}

TEST_P(GoldenTest, RowsOfThePositionTable) {
  if (!golden_->Has("pe.values")) return;
  const at::Tensor positions = golden_->Get("pe.positions");
  const at::Tensor expected = golden_->Get("pe.values");
  for (int64_t i = 0; i < positions.numel(); ++i) {
    const at::Tensor row = Sinusoid(positions[i].item<int64_t>(), 1,
                                    model_->description().width, at::kFloat);
    EXPECT_LE(MaxDifference(row[0], expected[i]), 1e-4) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenTest, testing::ValuesIn(kGoldenCases),
                         GoldenCaseName);

// Cross-attention under masks of 2, 3 and 4 dimensions and an additive one.
TEST(GoldenUnitTest, MultiHeadMasks) {
  const std::optional<std::string> directory = FindGolden("mha_masks");
  ASSERT_TRUE(directory);
  const absl::StatusOr<GoldenCase> golden = GoldenCase::Load(*directory);
  ASSERT_TRUE(golden.ok()) << golden.status();
  const nlohmann::json& config = golden->config();
  const int64_t heads = config["heads"];
  const auto heads_of = [&](const char* array, const char* map) {
    return SplitHeads(at::linear(golden->Get(array), golden->GetWeight(map)), heads);
  };
  for (const std::string name : {"none", "mask2", "mask3", "mask4", "mask_add"}) {
    const absl::StatusOr<ScoreMask> mask =
        MakeScoreMask(name == "none" ? at::Tensor() : golden->Get(name),
                      {.batch = config["batch"],
                       .heads = heads,
                       .queries = config["query_len"],
                       .keys = config["key_len"]},
                      at::kFloat);
    ASSERT_TRUE(mask.ok()) << mask.status();
    const Attended result =
        Attend(heads_of("query", "w_q.weight"), heads_of("key", "w_k.weight"),
               heads_of("value", "w_v.weight"), *mask, Dropout());
    const at::Tensor output =
        at::linear(MergeHeads(result.mixed, heads), golden->GetWeight("w_o.weight"));
    EXPECT_LE(MaxDifference(output, golden->Get("out." + name)), 1e-5) << name;
    EXPECT_LE(MaxDifference(MapsOfBatch(result.weights, heads),
                            golden->Get("attention." + name)),
              1e-5)
        << name;
  }
}

TEST(GoldenUnitTest, Dpfp) {
  const std::optional<std::string> directory = FindGolden("dpfp");
  ASSERT_TRUE(directory);
  const absl::StatusOr<GoldenCase> golden = GoldenCase::Load(*directory);
  ASSERT_TRUE(golden.ok()) << golden.status();
  int checked = 0;
  for (const int64_t width : golden->config()["key_widths"]) {
    const std::string dk = ".dk" + std::to_string(width);
    for (const int64_t nu : golden->config()["nu"]) {
      const std::string suffix = dk + ".nu" + std::to_string(nu);
      const at::Tensor keys = golden->Get("keys" + dk);
      EXPECT_LE(MaxDifference(DpfpProducts(keys, nu), golden->Get("dpfp" + suffix)),
                1e-5);
      EXPECT_LE(MaxDifference(Dpfp(keys, nu), golden->Get("phi" + suffix)), 1e-5);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 15);
}

}  // namespace
}  // namespace mnemon
