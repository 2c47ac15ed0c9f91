// SPDX-License-Identifier: MIT
// The table of architectures, what each refuses, and how weights start.
#include "model/registry.h"

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "gmock/gmock.h"
#include "tests/model/arch/variants.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig Base(const std::string& architecture) {
  return FindArchitecture(architecture).value()->variants()[0];
}

TEST(RegistryTest, EveryEntryHasValidVariants) {
  std::set<std::string_view> names;
  for (const ArchitectureEntry& entry : Architectures()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty());
    EXPECT_FALSE(entry.variants().empty());
    for (const ModelConfig& config : entry.variants()) {
      EXPECT_EQ(config.architecture, entry.name);
      EXPECT_TRUE(ValidateModel(config).ok()) << ValidateModel(config);
    }
  }
}

TEST(RegistryTest, UnknownNamesListTheKnownOnes) {
  for (const absl::Status& status : {FindArchitecture("feedbak").status(), [] {
                                       ModelConfig config;
                                       return SetArchitecture(config, "feedbak");
                                     }()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("feedbak"), HasSubstr("fast_weights"),
                      HasSubstr("transformer_xl"), HasSubstr("causal")));
  }
  ModelConfig config = Base("causal");
  config.architecture = "nothing";
  EXPECT_EQ(MakeModel(config).status().code(), absl::StatusCode::kNotFound);
}

TEST(RegistryTest, SetsArchitecturesAsUsersTypeThem) {
  ModelConfig config;
  ASSERT_TRUE(SetArchitecture(config, "causal").ok());
  EXPECT_EQ(config.architecture, "causal");
  ASSERT_TRUE(SetArchitecture(config, "feedback_shared").ok());
  EXPECT_EQ(config.architecture, "feedback");
  EXPECT_EQ(config.projection, Projection::kShared);
}

TEST(RegistryTest, RefusalsNameEveryFieldAtOnce) {
  for (const ArchitectureEntry& entry : Architectures()) {
    ModelConfig config = entry.variants()[0];
    config.tie_head = config.gated = config.norm_logits = true;
    config.activation = Activation::kGelu;
    config.mask = Mask::kCausal;
    config.position_kind = config.position_kind == PositionKind::kRelative
                               ? PositionKind::kSinusoidal
                               : PositionKind::kRelative;
    const absl::Status status = MakeModel(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry.name;
    EXPECT_THAT(
        status.message(),
        AllOf(HasSubstr(std::string(entry.name)), HasSubstr("tie_head"),
              HasSubstr("gated"), HasSubstr("norm_logits"), HasSubstr("activation"),
              HasSubstr("mask"), HasSubstr("position_kind")));
    EXPECT_TRUE(GetErrorDetail(status));
  }
}

TEST(RegistryTest, FieldsOfOtherArchitecturesAreRefused) {
  const auto refused = [](const std::string& architecture, const char* field,
                          auto change) {
    ModelConfig config = Base(architecture);
    change(config);
    const absl::Status status = ValidateModel(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << architecture << " " << field;
    EXPECT_THAT(status.message(), HasSubstr(field)) << architecture;
  };
  refused("causal", "nu", [](ModelConfig& c) { c.nu = 2; });
  refused("causal", "mem_len", [](ModelConfig& c) { c.mem_len = 2; });
  refused("feedback", "window", [](ModelConfig& c) { c.window = Window::kSegment; });
  refused("feedback", "update_rule",
          [](ModelConfig& c) { c.update_rule = UpdateRule::kSum; });
  refused("feedback", "embed_scale", [](ModelConfig& c) { c.embed_scale = true; });
  refused("fast_weights", "projection",
          [](ModelConfig& c) { c.projection = Projection::kShared; });
  refused("fast_weights", "positions", [](ModelConfig& c) { c.positions = 7; });
  refused("transformer_xl", "normalise",
          [](ModelConfig& c) { c.normalise = Normalise::kZ; });
  refused("transformer_xl", "position_bias",
          [](ModelConfig& c) { c.position_bias = PositionBias::kTied; });
  refused("transformer_xl", "mem_len",
          [](ModelConfig& c) { c.mem_len = c.positions + 1; });
}

TEST(RegistryTest, GeneralAndOwnFaultsComeTogether) {
  ModelConfig config = Base("causal");
  config.heads = 3;
  config.nu = 2;
  const absl::Status status = ValidateModel(config);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("heads"), HasSubstr("nu")));
}

TEST(RegistryTest, ParameterCountsOfTheReferenceExperiments) {
  const auto count = [](ModelConfig config, int64_t width, int64_t heads,
                        int64_t hidden) {
    config.d_model = width;
    config.heads = heads;
    config.layers = 6;
    config.d_ff = hidden;
    config.vocab = 65;
    config.positions = 4096;
    auto model = MakeModel(config);
    EXPECT_TRUE(model.ok()) << model.status();
    return CountParameters(**model);
  };
  ModelConfig feedback = Base("feedback");
  feedback.projection = Projection::kPerLayer;
  EXPECT_EQ(count(feedback, 512, 8, 2048), 31'758'408);
  feedback.projection = Projection::kShared;
  EXPECT_EQ(count(feedback, 512, 8, 2048), 29'133'896);
  EXPECT_EQ(count(Base("fast_weights"), 512, 8, 2048), 18'997'313);
  EXPECT_EQ(count(Base("transformer_xl"), 128, 4, 256), 7'299'137);
  EXPECT_EQ(count(Base("causal"), 256, 16, 1024), 4'772'417);
}

using Weights = std::map<std::string, at::Tensor>;

Weights Initialised(const ModelConfig& config, Initialisation kind, uint64_t seed) {
  const std::unique_ptr<Model> model = *MakeModel(config);
  InitialiseWeights(*model, kind, seed);
  Weights weights;
  model->Visit([&](const std::string& name, at::Tensor& tensor) {
    EXPECT_TRUE(weights.emplace(name, tensor).second) << name << " twice";
  });
  return weights;
}

class InitialiseTest : public testing::TestWithParam<ModelConfig> {};

TEST_P(InitialiseTest, FollowsFromTheSeed) {
  for (const Initialisation kind :
       {Initialisation::kSane, Initialisation::kReference}) {
    const Weights a = Initialised(GetParam(), kind, 1);
    const Weights b = Initialised(GetParam(), kind, 1);
    const Weights c = Initialised(GetParam(), kind, 2);
    for (const auto& [name, tensor] : a) {
      EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << name;
      EXPECT_TRUE(tensor.equal(b.at(name))) << name;
    }
    EXPECT_FALSE(a.at("embed.weight").equal(c.at("embed.weight")));
  }
}

TEST_P(InitialiseTest, LayersAreCopiesInTheReferenceOnly) {
  for (const Initialisation kind :
       {Initialisation::kSane, Initialisation::kReference}) {
    const Weights weights = Initialised(GetParam(), kind, 1);
    int matrices = 0;
    for (const auto& [name, tensor] : weights) {
      if (!name.starts_with("layers.0.") || !name.ends_with(".weight") ||
          tensor.dim() != 2) {
        continue;
      }
      ++matrices;
      EXPECT_EQ(tensor.equal(weights.at("layers.1." + name.substr(9))),
                kind == Initialisation::kReference)
          << name;
    }
    EXPECT_GT(matrices, 0);
  }
}

TEST_P(InitialiseTest, ReferenceDrawsAsPyTorchDoes) {
  for (const auto& [name, tensor] :
       Initialised(GetParam(), Initialisation::kReference, 1)) {
    const double largest = tensor.abs().max().item<double>();
    if (name == "embed.weight") {
      EXPECT_NEAR(tensor.std().item<double>(), 1.0, 0.4);
    } else if (name.ends_with("norm.weight") || name == "memory.mix") {
      EXPECT_TRUE(tensor.eq(1.0).all().item<bool>()) << name;
    } else if (name.ends_with("norm.bias") || name == "positions.weight" ||
               name.find("relative_") != name.npos || name.ends_with("query_bias")) {
      EXPECT_EQ(largest, 0.0) << name;
    } else {
      // U(+-1/sqrt(fan_in)); the only linear map with another input width is ff.out.
      const bool out = name.find("ff.out") != name.npos;
      const double bound = 1.0 / std::sqrt(out ? GetParam().d_ff : GetParam().d_model);
      EXPECT_LE(largest, bound) << name;
      EXPECT_GT(largest, 0.5 * bound) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, InitialiseTest, testing::ValuesIn(AllVariants()),
                         VariantName);

}  // namespace
}  // namespace mnemon
