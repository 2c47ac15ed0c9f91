// SPDX-License-Identifier: MIT
#include "model/io/import_labml.h"

#include <cmath>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kMaxBytes = 1 << 20;

std::string WhatIsWrong(const absl::Status& status) {
  return std::string(status.message());
}

std::string GoldenPath(const std::string& name, const std::string& file) {
  return StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/", name, "/", file);
}

// A golden model in pieces that a test may change before it imports them.
struct Pieces {
  explicit Pieces(const std::string& name)
      : config(nlohmann::json::parse(
            ReadFile(GoldenPath(name, "config.json"), kMaxBytes).value())),
        source(Safetensors::Read(GoldenPath(name, "weights.safetensors")).value()) {
    for (const TensorInfo& info : source.header().tensors) {
      tensors.push_back({info.name, info.dtype, info.shape, source.Bytes(info)});
    }
  }
  TensorToWrite& Find(const std::string& name) {
    for (TensorToWrite& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::out_of_range(name);
  }
  absl::StatusOr<ImportedModel> Import(bool convert = false) const {
    return ImportLabml(
        config.dump(),
        Safetensors::FromBytes(FormatSafetensors(tensors).value()).value(), convert);
  }

  nlohmann::json config;
  Safetensors source;
  std::vector<TensorToWrite> tensors;
};

TEST(ImportLabml, MapsEveryArchitecture) {
  struct Case {
    const char* name;
    const char* architecture;
    PositionKind kind;
  };
  for (const Case& c : {Case{"feedback_000", "feedback", PositionKind::kRelative},
                        Case{"feedback_002", "feedback", PositionKind::kRelative},
                        Case{"feedback_kv", "feedback", PositionKind::kRelative},
                        Case{"fast_weights_nu3", "fast_weights", PositionKind::kNone},
                        Case{"transformer", "causal", PositionKind::kSinusoidal},
                        Case{"encoder", "encoder", PositionKind::kSinusoidal},
                        Case{"xl_carry", "transformer_xl", PositionKind::kRelative}}) {
    const Pieces pieces(c.name);
    const auto imported = pieces.Import();
    ASSERT_TRUE(imported.ok()) << c.name << imported.status();
    const ModelConfig& config = imported->config;
    EXPECT_EQ(config.architecture, c.architecture);
    EXPECT_EQ(config.position_kind, c.kind);
    EXPECT_EQ(config.d_ff, pieces.config["ff"]);
    EXPECT_EQ(config.layers, pieces.config["layers"]);
    EXPECT_EQ(config.embed_scale, c.architecture == std::string("causal"));
    EXPECT_EQ(config.norm_logits, c.architecture == std::string("encoder"));
    EXPECT_EQ(config.mask, Mask::kNone);
    const auto weights = Safetensors::FromBytes(imported->weights).value();
    for (const TensorInfo& tensor : weights.header().tensors) {
      EXPECT_THAT(tensor.name, testing::Not(HasSubstr("transformer")));
    }
  }
}

TEST(ImportLabml, MapsVariants) {
  EXPECT_EQ(Pieces("feedback_000").Import()->config.position_bias, PositionBias::kTied);
  EXPECT_EQ(Pieces("feedback_002").Import()->config.position_bias, PositionBias::kFree);
  EXPECT_EQ(Pieces("feedback_002").Import()->config.projection, Projection::kPerLayer);
  EXPECT_EQ(Pieces("feedback_kv").Import()->config.projection, Projection::kShared);
  EXPECT_EQ(Pieces("fast_weights_nu3").Import()->config.nu, 3);
  EXPECT_EQ(Pieces("xl_carry").Import()->config.mem_len, 40);
  EXPECT_EQ(Pieces("xl_carry").Import()->config.window, Window::kSegment);
  Pieces encoder("encoder");
  encoder.config["mask"] = "causal";
  EXPECT_EQ(encoder.Import()->config.mask, Mask::kCausal);
}

TEST(ImportLabml, TensorsKeepTheirValues) {
  const Pieces pieces("feedback_002");
  const auto ours = Safetensors::FromBytes(pieces.Import()->weights).value();
  const auto same = [&](const char* foreign, const char* name) {
    ASSERT_NE(ours.Find(name), nullptr) << name;
    EXPECT_EQ(pieces.source.Bytes(*pieces.source.Find(foreign)),
              ours.Bytes(*ours.Find(name)));
  };
  same("src_embed.weight", "embed.weight");
  same("transformer.weights", "memory.mix");
  same("transformer.layers.1.attn.query_pos_bias", "layers.1.attn.query_bias");
  same("transformer.layers.1.feed_forward.layer2.weight", "layers.1.ff.out.weight");
  same("generator.bias", "head.bias");
  EXPECT_EQ(ours.header().tensors.size(), pieces.tensors.size());
}

TEST(ImportLabml, PositionsComeFromTheTableWhenAbsent) {
  for (const auto& [name, positions] : {std::pair("feedback_002", 40),
                                        {"xl_carry", 64},
                                        {"transformer", 64},
                                        {"encoder", 64}}) {
    Pieces pieces(name);
    pieces.config.erase("positions");
    EXPECT_EQ(pieces.Import()->config.positions, positions) << name;
    pieces.config["positions"] = positions + 1;
    EXPECT_THAT(WhatIsWrong(pieces.Import().status()), HasSubstr("expected F32"));
  }
}

TEST(ImportLabml, SeedFormComesFromTheWeightsWhenAbsent) {
  for (const char* name : {"feedback_000", "feedback_002", "feedback_kv"}) {
    Pieces pieces(name);
    const ModelConfig stated = pieces.Import()->config;
    pieces.config.erase("seed_form");
    EXPECT_EQ(pieces.Import()->config, stated);
  }
}

TEST(ImportLabml, ConvertedBiasIsTheReferences) {
  const Pieces pieces("feedback_000");
  const auto imported = pieces.Import(/*convert=*/true);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->config.position_bias, PositionBias::kFree);
  const auto ours = Safetensors::FromBytes(imported->weights).value();
  const auto io =
      Safetensors::Read(GoldenPath("feedback_000", "io.safetensors")).value();
  for (int i = 0; i < 2; ++i) {
    const TensorInfo* bias = ours.Find(StrCat("layers.", i, ".attn.relative_bias"));
    const TensorInfo* wanted = io.Find(StrCat("mapped.", i, ".key_pos_bias"));
    ASSERT_NE(bias, nullptr);
    ASSERT_EQ(bias->shape, wanted->shape);
    const auto a = ours.Floats(*bias).value(), b = io.Floats(*wanted).value();
    for (size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 1e-5);
  }
}

TEST(ImportLabml, OnlySeedForm000IsConverted) {
  for (const char* name : {"feedback_002", "feedback_kv", "transformer"}) {
    EXPECT_THAT(WhatIsWrong(Pieces(name).Import(true).status()), HasSubstr("000"))
        << name;
  }
}

TEST(ImportLabml, AllFaultsAreListedUnderForeignNames) {
  Pieces pieces("feedback_002");
  pieces.Find("src_embed.weight").name = "surplus.weight";
  pieces.Find("generator.weight").shape = {16, 17};
  TensorToWrite& norm = pieces.Find("transformer.norm.bias");
  norm.dtype = DType::kF16;
  norm.shape = {32};
  const std::vector<float> bad(16, std::nanf(""));
  pieces.Find("transformer.norm.weight").data = {
      reinterpret_cast<const char*>(bad.data()), bad.size() * sizeof(float)};
  const absl::Status status = pieces.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      WhatIsWrong(status),
      AllOf(HasSubstr("'src_embed.weight' is missing, expected F32 [17, 16]"),
            HasSubstr("'surplus.weight' is not expected"),
            HasSubstr("'generator.weight' is F32 [16, 17], expected F32 [17, 16]"),
            HasSubstr("'transformer.norm.bias' is F16 [32], expected F32 [16]"),
            HasSubstr("'transformer.norm.weight' is not finite at element 0")));
}

TEST(ImportLabml, LearnedPositionsAreNoSinusoid) {
  Pieces pieces("transformer");
  std::string table(pieces.Find("src_embed.positional_encodings").data);
  const float other = 0.5f;
  std::memcpy(table.data() + sizeof(float) * (3 * 16 + 5), &other, sizeof(other));
  pieces.Find("src_embed.positional_encodings").data = table;
  EXPECT_THAT(
      WhatIsWrong(pieces.Import().status()),
      AllOf(HasSubstr("positional_encodings"), HasSubstr("position 3, column 5")));
}

TEST(ImportLabml, BadConfigsAreNamed) {
  const auto with = [](const char* name, const char* key, const nlohmann::json& value) {
    Pieces pieces(name);
    if (value.is_null()) {
      pieces.config.erase(key);
    } else {
      pieces.config[key] = value;
    }
    return WhatIsWrong(pieces.Import().status());
  };
  EXPECT_THAT(
      with("transformer", "architecture", "decoder"),
      AllOf(HasSubstr("'decoder'"), HasSubstr("feedback_kv"), HasSubstr("encoder")));
  EXPECT_THAT(with("transformer", "architecture", "x\ny"), HasSubstr("'x\\x0ay'"));
  EXPECT_THAT(with("transformer", "architecture", nullptr), HasSubstr("is missing"));
  EXPECT_THAT(with("transformer", "architecture", 5), HasSubstr("is not a string"));
  EXPECT_THAT(with("transformer", "d_model", nullptr),
              HasSubstr("missing key d_model"));
  EXPECT_THAT(with("transformer", "heads", 2.0), HasSubstr("heads"));
  EXPECT_THAT(with("transformer", "heads", 0), HasSubstr("heads"));
  EXPECT_THAT(with("transformer", "heads", 3), HasSubstr("heads"));
  EXPECT_THAT(with("transformer", "heads", "2"), HasSubstr("heads"));
  EXPECT_THAT(with("transformer", "layers", int64_t{1} << 31), HasSubstr("layers"));
  EXPECT_THAT(with("transformer", "vocab", -1), HasSubstr("vocab"));
  EXPECT_THAT(with("transformer", "ff", 1e99), HasSubstr("ff"));
  EXPECT_THAT(with("transformer", "dropout", "0"), HasSubstr("dropout"));
  EXPECT_THAT(with("transformer", "dropout", 1.0), HasSubstr("dropout"));
  EXPECT_THAT(with("fast_weights_nu1", "nu", nullptr), HasSubstr("missing key nu"));
  EXPECT_THAT(with("xl_carry", "mem_len", nullptr), HasSubstr("missing key mem_len"));
  EXPECT_THAT(with("encoder", "mask", "triangle"), HasSubstr("mask must be"));
  EXPECT_THAT(with("encoder", "mask", 5), HasSubstr("mask must be"));
  EXPECT_THAT(with("feedback_002", "seed_form", "001"), HasSubstr("seed_form"));
  EXPECT_THAT(with("feedback_002", "seed_form", "000"), HasSubstr("key_pos_bias"));
  EXPECT_THAT(with("feedback_000", "seed_form", "002"), HasSubstr("key_pos_bias"));
  EXPECT_THAT(with("feedback_kv", "seed_form", "000"), HasSubstr("seed_form"));
  EXPECT_EQ(with("feedback_kv", "batch", "anything else is ignored"), "");
  const Safetensors none =
      Safetensors::FromBytes(FormatSafetensors({}).value()).value();
  EXPECT_FALSE(ImportLabml("[]", none, false).ok());
  EXPECT_FALSE(ImportLabml("", none, false).ok());
}

}  // namespace
}  // namespace mnemon
