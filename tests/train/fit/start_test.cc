// SPDX-License-Identifier: MIT
#include "train/fit/start.h"

#include <cmath>
#include <map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/blocks/attention/alibi.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "tests/model/io/temporary_directory.h"
#include "train/data/drawn_task.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;

using Tensors = std::map<std::string, at::Tensor>;

class StartTest : public testing::Test {
 protected:
  StartTest() : grad_(false) {
    DataOptions options;
    options.task = TaskKind::kDihedral;
    task_ = MakeDrawnTask(options);
  }

  static ModelConfig Causal(PositionKind kind) {
    return {.architecture = "causal",
            .d_model = 12,
            .heads = 2,
            .layers = 2,
            .d_ff = 16,
            .vocab = 4,
            .positions = 20,
            .position_kind = kind};
  }
  static ModelConfig Feedback(Projection projection) {
    ModelConfig config = Causal(PositionKind::kRelative);
    config.architecture = "feedback";
    config.projection = projection;
    config.positions = 30;
    return config;
  }

  // Its weights hide nothing.
  std::unique_ptr<Model> Drawn(const ModelConfig& config, uint64_t seed) {
    auto model = MakeModel(config).value();
    InitialiseWeights(*model, Initialisation::kSane, seed);
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    model->Visit([&](const std::string&, at::Tensor& weight) {
      weight.add_(at::empty(weight.sizes()).normal_(0.0, 0.3, generator));
    });
    return model;
  }

  std::string Written(const ModelConfig& config, Model& model) {
    CheckpointContent content;
    content["config.json"] = ConfigToJson(config);
    content["model.safetensors"] = FormatWeights(model).value();
    const absl::Status written = WriteCheckpoint(dir_, content);
    EXPECT_TRUE(written.ok()) << written;
    return dir_;
  }

  static Tensors Of(Model& model) {
    Tensors tensors;
    model.Visit([&](const std::string& name, at::Tensor& weight) {
      tensors[name] = weight.clone();
    });
    return tensors;
  }

  std::string Refused(const ModelConfig& from, const ModelConfig& to) {
    const auto source = Drawn(from, 1), model = Drawn(to, 2);
    const Tensors before = Of(*model);
    const absl::Status status = StartFrom(Written(from, *source), *task_, to, *model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    for (const auto& [name, tensor] : Of(*model)) {
      EXPECT_TRUE(tensor.equal(before.at(name))) << name;
    }
    return std::string(status.message());
  }

  const at::NoGradGuard no_grad_;
  const c10::AutoGradMode grad_;
  const TemporaryDirectory directory_;
  const std::string dir_ = directory_.Path("checkpoint");
  std::unique_ptr<Task> task_;
};

TEST_F(StartTest, AModelOfTheSameShapeIsTakenOver) {
  for (const char* name : {"causal", "feedback", "fast_weights", "transformer_xl"}) {
    ModelConfig config = FindFamily(name).value()->variants().front();
    const auto source = Drawn(config, 1);
    const std::string from = Written(config, *source);
    config.dropout = 0.5;
    const auto model = Drawn(config, 2);
    const absl::Status status = StartFrom(from, *task_, config, *model);
    ASSERT_TRUE(status.ok()) << status;
    const Tensors expected = Of(*source);
    for (const auto& [tensor, value] : Of(*model)) {
      EXPECT_TRUE(value.equal(expected.at(tensor))) << tensor;
    }
  }
}

// Weights of a query over memories at distances n .. 1, by the causal model's equations
// and by those of feedback with what became of its weights.
TEST_F(StartTest, ACausalModelKeepsItsScores) {
  constexpr int64_t kCount = 9, kHeads = 2, kWidth = 6;
  const double scale = 1 / std::sqrt(static_cast<double>(kWidth));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  for (const PositionKind kind :
       {PositionKind::kAlibi, PositionKind::kRelative, PositionKind::kNone}) {
    for (const Projection projection : {Projection::kPerLayer, Projection::kShared}) {
      const ModelConfig causal = Causal(kind), feedback = Feedback(projection);
      const auto source = Drawn(causal, 1), model = Drawn(feedback, 2);
      const Tensors drawn = Of(*model);
      const absl::Status status =
          StartFrom(Written(causal, *source), *task_, feedback, *model);
      ASSERT_TRUE(status.ok()) << status;
      const Tensors from = Of(*source), to = Of(*model);
      EXPECT_TRUE(to.at("memory.mix").equal(drawn.at("memory.mix")));
      const at::Tensor z = at::empty({12}).normal_(0, 1, generator),
                       m = at::empty({kCount, 12}).normal_(0, 1, generator);
      const auto heads = [&](const at::Tensor& x) {
        return x.view({-1, kHeads, kWidth});
      };
      const auto weights = [&](const Tensors& t, const at::Tensor& q,
                               const at::Tensor& u, const at::Tensor& k,
                               const at::Tensor& slopes, const at::Tensor& rk,
                               const at::Tensor& rb) {
        at::Tensor scores = ((q + u) * k).sum(-1) + (q * rk).sum(-1) + rb;
        scores = scores * scale - slopes;
        return at::softmax(scores, 0);
      };
      const at::Tensor no_rows = at::zeros({kCount, kHeads, kWidth}),
                       no_bias = at::zeros({kCount, kHeads});
      for (const std::string& layer :
           {std::string("layers.0."), std::string("layers.1.")}) {
        const auto get = [&](const Tensors& t, const char* part) {
          return t.at(layer + part);
        };
        at::Tensor key = get(from, "attn.key.weight");
        if (projection == Projection::kShared) {
          key = (from.at("layers.0.attn.key.weight") +
                 from.at("layers.1.attn.key.weight")) /
                2;
          EXPECT_TRUE(to.at("memory.key.weight").allclose(key));
        }
        at::Tensor slopes = no_bias, rk = no_rows, rb = no_bias,
                   u = at::zeros({kHeads, kWidth});
        if (kind == PositionKind::kAlibi) {
          const std::vector<double> all = AlibiSlopes(kHeads);
          slopes = at::empty({kCount, kHeads});
          for (int64_t j = 0; j < kCount; ++j) {
            for (int64_t h = 0; h < kHeads; ++h) {
              slopes[j][h] = all[h] * static_cast<double>(kCount - j);
            }
          }
        } else if (kind == PositionKind::kRelative) {
          rk = get(from, "attn.relative_key").narrow(0, 19 - kCount, kCount);
          rb = get(from, "attn.relative_bias").narrow(0, 19 - kCount, kCount);
          u = get(from, "attn.query_bias");
        }
        const at::Tensor expected = weights(
            from,
            heads(get(from, "attn.query.weight").mv(z) + get(from, "attn.query.bias")),
            u, heads(m.matmul(key.t()) + get(from, "attn.key.bias")), slopes, rk, rb);
        const at::Tensor found =
            weights(to, heads(get(to, "attn.query.weight").mv(z)),
                    get(to, "attn.query_bias"), heads(m.matmul(key.t())), no_bias,
                    get(to, "attn.relative_key").narrow(0, 30 - kCount, kCount),
                    get(to, "attn.relative_bias").narrow(0, 30 - kCount, kCount));
        EXPECT_LT((found - expected).abs().max().item<double>(), 1e-5) << layer;
        // Weights sum to 1, so a value's bias goes through the output once.
        if (projection == Projection::kShared) {
          const at::Tensor bias =
              get(from, "attn.output.bias") +
              get(from, "attn.output.weight").mv(get(from, "attn.value.bias"));
          EXPECT_TRUE(get(to, "attn.output.bias").allclose(bias));
        } else {
          EXPECT_TRUE(get(to, "attn.value.bias").equal(get(from, "attn.value.bias")));
        }
        for (const char* part : {"ff.in.weight", "ff.out.bias", "attn.norm.weight"}) {
          EXPECT_TRUE(get(to, part).equal(get(from, part))) << part;
        }
      }
    }
  }
}

TEST_F(StartTest, ATiedHeadAndAScaledEmbeddingAreUntied) {
  ModelConfig causal = Causal(PositionKind::kNone);
  causal.tie_head = causal.embed_scale = true;
  const ModelConfig feedback = Feedback(Projection::kShared);
  const auto source = Drawn(causal, 1), model = Drawn(feedback, 2);
  ASSERT_TRUE(StartFrom(Written(causal, *source), *task_, feedback, *model).ok());
  const Tensors from = Of(*source), to = Of(*model);
  EXPECT_TRUE(to.at("head.weight").equal(from.at("embed.weight")));
  EXPECT_EQ(to.at("head.bias").abs().max().item<float>(), 0);
  EXPECT_TRUE(
      to.at("embed.weight").allclose(from.at("embed.weight") * std::sqrt(12.0)));
}

TEST_F(StartTest, WhatDoesNotFitIsNamed) {
  ModelConfig to = Feedback(Projection::kShared);
  ModelConfig from = Causal(PositionKind::kSinusoidal);
  from.d_ff = 20;
  EXPECT_THAT(Refused(from, to), testing::AllOf(HasSubstr("its d_ff is 20, not 16"),
                                                HasSubstr("sinusoidal")));
  to.position_bias = PositionBias::kTied;
  EXPECT_THAT(Refused(Causal(PositionKind::kAlibi), to), HasSubstr("must be free"));
  EXPECT_THAT(Refused(to, Causal(PositionKind::kAlibi)),
              HasSubstr("it is of architecture feedback"));
  from = Causal(PositionKind::kAlibi);
  from.layers = 1;
  EXPECT_THAT(Refused(from, Causal(PositionKind::kAlibi)),
              HasSubstr("it has no layers.1.attn.norm.weight"));
  const auto model = Drawn(to, 2);
  const absl::Status missing = StartFrom("/no/such", *task_, to, *model);
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("train.from"));
}

}  // namespace
}  // namespace mnemon
