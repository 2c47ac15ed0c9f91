// SPDX-License-Identifier: MIT
// The table of architectures, what each refuses, and how weights start.
#include "model/sequence/make_model.h"

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "gmock/gmock.h"
#include "model/families/families.h"
#include "tests/model/decoder/variants.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelConfig Base(const std::string& architecture) {
  return FindFamily(architecture).value()->variants()[0];
}

TEST(RegistryTest, EveryEntryHasValidVariants) {
  std::set<std::string_view> names;
  for (const Family& entry : Families()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty());
    EXPECT_FALSE(entry.variants().empty());
    for (const ModelConfig& config : entry.variants()) {
      EXPECT_EQ(config.architecture, entry.name);
      EXPECT_TRUE(DescribeModel(config).ok()) << DescribeModel(config).status();
      EXPECT_EQ(entry.autoregressive(), !entry.describe(config).whole_sequences);
    }
  }
}

// The list of tensors, known without torch, is what the sequence form visits.
TEST(RegistryTest, TensorsAreThoseOfTheSequenceForm) {
  for (const Family& entry : Families()) {
    for (const ModelConfig& config : entry.variants()) {
      const std::unique_ptr<Model> model = MakeModel(config).value();
      std::vector<std::pair<std::string, std::vector<int64_t>>> visited, listed;
      model->Visit([&](const std::string& name, at::Tensor& tensor) {
        visited.emplace_back(name, tensor.sizes().vec());
      });
      for (const TensorShape& tensor : TensorsOf(entry.describe(config))) {
        listed.emplace_back(tensor.name, tensor.shape);
      }
      EXPECT_EQ(listed, visited) << entry.name;
    }
  }
}

TEST(RegistryTest, AModelIsServedAsItsKind) {
  for (const Family& entry : Families()) {
    const std::unique_ptr<Model> model = MakeTestModel(entry.variants()[0]);
    const absl::Status decoder = MakeDecoder(*model).status();
    const absl::Status predictor = MakePredictor(*model).status();
    EXPECT_EQ(decoder.ok(), entry.autoregressive());
    EXPECT_EQ(predictor.ok(), !entry.autoregressive());
    const absl::Status& refusal = decoder.ok() ? predictor : decoder;
    EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refusal.message(),
                HasSubstr(decoder.ok() ? "is autoregressive" : "whole sequences"));
  }
}

TEST(RegistryTest, UnknownNamesListTheKnownOnes) {
  for (const absl::Status& status : {FindFamily("feedbak").status(), [] {
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

// What an architecture refuses one by one it refuses together, all of it named.
TEST(RegistryTest, RefusalsNameEveryFieldAtOnce) {
  const std::map<std::string, std::function<void(ModelConfig&)>> changes = {
      {"window", [](ModelConfig& c) { c.window = Window::kSegment; }},
      {"nu", [](ModelConfig& c) { c.nu = 2; }},
      {"feature_map", [](ModelConfig& c) { c.feature_map = FeatureMapKind::kElu; }},
      {"update_rule", [](ModelConfig& c) { c.update_rule = UpdateRule::kSum; }},
      {"normalise", [](ModelConfig& c) { c.normalise = Normalise::kZ; }},
      {"projection", [](ModelConfig& c) { c.projection = Projection::kShared; }},
      {"position_bias", [](ModelConfig& c) { c.position_bias = PositionBias::kTied; }},
      {"embed_scale", [](ModelConfig& c) { c.embed_scale = true; }},
      {"tie_head", [](ModelConfig& c) { c.tie_head = true; }},
      {"activation", [](ModelConfig& c) { c.activation = Activation::kGelu; }},
      {"gated", [](ModelConfig& c) { c.gated = true; }},
      {"mask", [](ModelConfig& c) { c.mask = Mask::kCausal; }},
      {"norm_logits", [](ModelConfig& c) { c.norm_logits = true; }}};
  for (const Family& entry : Families()) {
    ModelConfig all = entry.variants()[0];
    std::vector<std::string> refused;
    for (const auto& [field, change] : changes) {
      ModelConfig one = entry.variants()[0];
      change(one);
      change(all);
      if (DescribeModel(one).ok()) continue;
      EXPECT_THAT(DescribeModel(one).status().message(), HasSubstr(field + " must be"));
      refused.push_back(field);
    }
    EXPECT_GE(refused.size(), 5u) << entry.name;
    const absl::Status status = MakeModel(all).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry.name;
    EXPECT_THAT(status.message(), HasSubstr(std::string(entry.name)));
    for (const std::string& field : refused) {
      EXPECT_THAT(status.message(), HasSubstr(field + " must be")) << entry.name;
    }
    EXPECT_TRUE(GetErrorDetail(status));
  }
}

TEST(RegistryTest, FieldsOfOtherArchitecturesAreRefused) {
  const auto refused = [](const std::string& architecture, const char* field,
                          auto change) {
    ModelConfig config = Base(architecture);
    change(config);
    const absl::Status status = DescribeModel(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
        << architecture << " " << field;
    EXPECT_THAT(status.message(), HasSubstr(field)) << architecture;
  };
  refused("causal", "nu", [](ModelConfig& c) { c.nu = 2; });
  refused("causal", "mem_len", [](ModelConfig& c) { c.mem_len = 2; });
  refused("causal", "norm_logits", [](ModelConfig& c) { c.norm_logits = true; });
  refused("causal", "mask", [](ModelConfig& c) { c.mask = Mask::kCausal; });
  refused("feedback", "tie_head", [](ModelConfig& c) { c.tie_head = true; });
  refused("fast_weights", "gated", [](ModelConfig& c) { c.gated = true; });
  refused("transformer_xl", "activation",
          [](ModelConfig& c) { c.activation = Activation::kGelu; });
  refused("encoder", "position_kind",
          [](ModelConfig& c) { c.position_kind = PositionKind::kRelative; });
  refused("encoder", "tie_head", [](ModelConfig& c) { c.tie_head = true; });
  refused("encoder", "mem_len", [](ModelConfig& c) { c.mem_len = 1; });
  refused("transformer_xl", "position_kind",
          [](ModelConfig& c) { c.position_kind = PositionKind::kAlibi; });
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

// Features are products of 2K numbers with themselves, shifted by 1 .. nu.
TEST(RegistryTest, NuIsBelowTwiceTheWidthOfAHead) {
  ModelConfig config = (*FindFamily("fast_weights"))->variants().front();
  const int64_t most = 2 * config.head_width() - 1;
  for (const int64_t nu : {int64_t{1}, most}) {
    config.nu = nu;
    EXPECT_TRUE(DescribeModel(config).ok()) << DescribeModel(config).status();
  }
  for (const int64_t nu : {int64_t{0}, most + 1}) {
    config.nu = nu;
    EXPECT_THAT(DescribeModel(config).status().message(), HasSubstr("nu must be"));
  }
}

TEST(RegistryTest, EluPlusOneHasNoOrderAndAnEvenHead) {
  ModelConfig config = (*FindFamily("fast_weights"))->variants().front();
  config.feature_map = FeatureMapKind::kElu;
  EXPECT_TRUE(DescribeModel(config).ok()) << DescribeModel(config).status();
  config.nu = 2;
  EXPECT_THAT(DescribeModel(config).status().message(), HasSubstr("nu must be"));
  config.nu = 1;
  config.d_model = 5 * config.heads;
  EXPECT_THAT(DescribeModel(config).status().message(),
              HasSubstr("width of a head is even"));
}

TEST(RegistryTest, GeneralAndOwnFaultsComeTogether) {
  ModelConfig config = Base("causal");
  config.heads = 3;
  config.nu = 2;
  const absl::Status status = DescribeModel(config).status();
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

TEST(RegistryTest, ParameterCountsOfTheNotebooksEncoders) {
  for (const auto& [width, heads, parameters] :
       {std::array<int64_t, 3>{32, 2, 18'622}, {128, 4, 283'294}}) {
    const ModelConfig config{.architecture = "encoder",
                             .d_model = width,
                             .heads = heads,
                             .layers = 2,
                             .d_ff = 2 * width,
                             .vocab = 10,
                             .positions = 5000,
                             .position_kind = PositionKind::kSinusoidal,
                             .norm_logits = true};
    auto model = MakeModel(config);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(CountParameters(**model), parameters);
  }
}

TEST(RegistryTest, ATiedHeadAddsNoWeights) {
  ModelConfig config = Base("causal");
  const int64_t untied = CountParameters(**MakeModel(config));
  config.tie_head = true;
  const std::unique_ptr<Model> model = *MakeModel(config);
  EXPECT_EQ(CountParameters(*model),
            untied - config.vocab * config.d_model - config.vocab);
  model->Visit([](const std::string& name, at::Tensor&) {
    EXPECT_EQ(name.find("head"), name.npos) << name;
  });
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
                kind == Initialisation::kReference && Autoregressive(GetParam()))
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
