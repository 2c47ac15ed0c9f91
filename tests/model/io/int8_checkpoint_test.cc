// SPDX-License-Identifier: MIT
// int8 checkpoints: for every variant of every architecture the bits of --precision
// int8 and the identity of the source; whatever does not make sense in one is refused
// by name.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/load/load.h"
#include "model/load/quantise.h"
#include "model/sequence/load.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What it computes for a few tokens.
std::vector<float> Outputs(const ServedModel& served) {
  const std::vector<int32_t> tokens = {1, 0, 2, 1, 1};
  if (served.predictor != nullptr) {
    const auto output = served.predictor->Predict({.tokens = tokens, .batch = 1});
    EXPECT_TRUE(output.ok()) << output.status();
    return {output->logits.begin(), output->logits.end()};
  }
  const auto arena = StateArena::Create(served.decoder->spec(), {.slots = 1}).value();
  std::vector<float> logits(tokens.size() *
                            static_cast<size_t>(served.description.vocab));
  const Segment segment{.slot = *arena->Acquire(),
                        .position = 0,
                        .tokens = tokens,
                        .logits = LogitsMode::kAll};
  const absl::Status status =
      served.decoder->Step({&segment, 1}, *arena, logits.data());
  EXPECT_TRUE(status.ok()) << status;
  return logits;
}

std::string NumericsId(const ServedModel& served) {
  return served.predictor != nullptr ? served.predictor->numerics_id()
                                     : served.decoder->numerics_id();
}

class Int8Checkpoint : public testing::Test {
 protected:
  std::string Fp32() const { return tmp_.Path("fp32"); }
  std::string Int8() const { return tmp_.Path("int8"); }

  // Writes a drawn model of `config` in both forms.
  void Write(const ModelConfig& config) const {
    const auto model = MakeModel(config).value();
    InitialiseWeights(*model, Initialisation::kSane, 1);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(2);
    model->Visit([&](const std::string&, at::Tensor& tensor) {
      if (!tensor.any().item<bool>()) tensor.normal_(0.0, 0.1, generator);
    });
    ASSERT_TRUE(WriteCheckpoint(Fp32(), {{"config.json", ConfigToJson(config)},
                                         {"model.safetensors", *FormatWeights(*model)}})
                    .ok());
    const auto made = QuantiseCheckpoint(Fp32());
    ASSERT_TRUE(made.ok()) << made.status();
    ASSERT_TRUE(WriteCheckpoint(Int8(), made->content, made->source).ok());
  }
  ServedModel Served(const std::string& dir, std::optional<WeightFormat> format) const {
    auto served = LoadServedModel(dir, {.decoder = {.format = format}});
    EXPECT_TRUE(served.ok()) << served.status();
    return *std::move(served);
  }

  TemporaryDirectory tmp_;
};

TEST_F(Int8Checkpoint, GivesTheBitsOfQuantisingAtLoad) {
  for (const Family& entry : Families()) {
    const std::vector<ModelConfig> variants = entry.variants();
    for (size_t v = 0; v < variants.size(); ++v) {
      SCOPED_TRACE(StrCat(entry.name, " ", v));
      Write(variants[v]);
      const ServedModel at_load = Served(Fp32(), WeightFormat::kInt8);
      for (const auto format :
           {std::optional<WeightFormat>(), std::optional(WeightFormat::kInt8)}) {
        const ServedModel stored = Served(Int8(), format);
        EXPECT_EQ(stored.model_id, at_load.model_id);
        EXPECT_EQ(NumericsId(stored), NumericsId(at_load));
        EXPECT_THAT(NumericsId(stored), HasSubstr("/int8/"));
        EXPECT_EQ(stored.format, WeightFormat::kInt8);
        EXPECT_EQ(stored.config_json, at_load.config_json);
        EXPECT_EQ(stored.parameters, at_load.parameters);
        const std::vector<float> found = Outputs(stored), expected = Outputs(at_load);
        ASSERT_EQ(found.size(), expected.size());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), 4 * found.size()), 0);
      }
      EXPECT_EQ(Served(Fp32(), std::nullopt).format, WeightFormat::kFp32);
    }
  }
}

TEST_F(Int8Checkpoint, HoldsInt8WhereTheRuleSaysSoAndFloatsAsTheyWere) {
  int64_t matrices = 0;
  for (const Family& entry : Families()) {
    for (const ModelConfig& config : entry.variants()) {
      Write(config);
      const CheckpointFiles before = ReadCheckpoint(Fp32()).value();
      const CheckpointFiles after = ReadCheckpoint(Int8()).value();
      EXPECT_EQ(after.config_json, before.config_json);
      for (const TensorInfo& tensor : before.weights.header().tensors) {
        SCOPED_TRACE(StrCat(entry.name, " ", tensor.name));
        const TensorInfo* const now = after.weights.Find(tensor.name);
        ASSERT_NE(now, nullptr);
        EXPECT_EQ(now->shape, tensor.shape);
        const TensorInfo* const scale = after.weights.Find(tensor.name + ".scale");
        EXPECT_EQ(scale != nullptr, now->dtype == DType::kI8);
        const bool table =
            tensor.name == "embed.weight" || tensor.name == "positions.weight";
        const bool gathers = config.architecture == "fast_weights" &&
                             tensor.name.find(".attn.") != std::string::npos;
        const bool narrow =
            tensor.name.ends_with("attn.output.weight") && config.head_width() < 8;
        const bool matrix = tensor.shape.size() == 2 &&
                            tensor.name.ends_with(".weight") && !table && !gathers &&
                            !narrow;
        EXPECT_EQ(now->dtype, matrix ? DType::kI8 : DType::kF32);
        if (!matrix) {
          EXPECT_EQ(after.weights.Bytes(*now), before.weights.Bytes(tensor));
          continue;
        }
        ++matrices;
        EXPECT_EQ(scale->shape, std::vector<int64_t>{tensor.shape[0]});
        // A weight is within half a step of its number.
        const std::vector<float> weights = *before.weights.Floats(tensor);
        const std::vector<float> scales = *after.weights.Floats(*scale);
        const std::string_view numbers = after.weights.Bytes(*now);
        const auto width = static_cast<size_t>(tensor.shape[1]);
        for (size_t i = 0; i < weights.size(); ++i) {
          const float step = scales[i / width];
          EXPECT_NEAR(step * static_cast<float>(static_cast<int8_t>(numbers[i])),
                      weights[i], 0.501f * step);
        }
      }
    }
  }
  EXPECT_GT(matrices, 100);
}

TEST_F(Int8Checkpoint, OtherPrecisionsAndFormsAreRefusedWithWhatIsPossible) {
  Write(FindFamily("causal").value()->variants().front());
  for (const WeightFormat format : {WeightFormat::kFp32, WeightFormat::kBf16}) {
    const absl::Status status =
        LoadServedModel(Int8(), {.decoder = {.format = format}}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(Int8()), HasSubstr(NameOf(format)),
                      HasSubstr("use int8 or leave the flag out")));
  }
  const DecoderOptions sequence{.form = DecoderForm::kSequence};
  for (const absl::Status& status :
       {LoadCheckpoint(Int8()).status(),
        LoadServedModel(Int8(), {.decoder = sequence}).status(),
        LoadStepForm(Int8(), at::kCPU, sequence).status(),
        QuantiseCheckpoint(Int8()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(Int8()), HasSubstr("int8")));
  }
  EXPECT_THAT(std::string(LoadCheckpoint(Int8()).status().message()),
              HasSubstr("need the fp32 checkpoint"));
}

// The int8 checkpoint as its tensors, to be changed and written with a manifest that
// agrees.
struct Tensors {
  struct One {
    TensorInfo info;
    std::string bytes;
  };
  std::vector<One> all;

  One& Get(const std::string& name) {
    for (One& one : all) {
      if (one.info.name == name) return one;
    }
    ADD_FAILURE() << name;
    return all.front();
  }
  void Drop(const std::string& name) {
    std::erase_if(all, [&](const One& one) { return one.info.name == name; });
  }
};

TEST_F(Int8Checkpoint, WhatDoesNotMakeSenseIsRefusedByTheNameOfTheTensor) {
  Write(FindFamily("fast_weights").value()->variants().front());
  const auto made = QuantiseCheckpoint(Fp32()).value();
  const Safetensors file =
      Safetensors::FromBytes(made.content.at("model.safetensors")).value();
  const std::string matrix = "layers.0.ff.in.weight", scale = matrix + ".scale";
  const std::string gate = "layers.0.attn.gate.weight", norm = "norm.weight";
  const auto set_float = [](std::string& bytes, float value) {
    std::memcpy(bytes.data() + 4, &value, sizeof(value));
  };
  struct Case {
    std::function<void(Tensors&)> change;
    std::string part;
  };
  const std::vector<Case> cases = {
      {[&](Tensors& t) { t.Drop(scale); }, StrCat("'", scale, "' is missing")},
      {[&](Tensors& t) { t.Drop(matrix); }, StrCat("'", matrix, "' is missing")},
      {[&](Tensors& t) {
         auto& [info, bytes] = t.Get(scale);
         --info.shape[0];
         bytes.resize(bytes.size() - 4);
       },
       StrCat("'", scale, "' is F32 [")},
      {[&](Tensors& t) { t.Get(scale).info.shape.push_back(1); },
       StrCat("'", scale, "' is F32 [")},
      {[&](Tensors& t) { t.Get(scale).info.dtype = DType::kI32; },
       StrCat("'", scale, "' is I32")},
      {[&](Tensors& t) { set_float(t.Get(scale).bytes, NAN); },
       StrCat("'", scale, "' is negative or not finite at element 1")},
      {[&](Tensors& t) { set_float(t.Get(scale).bytes, INFINITY); },
       StrCat("'", scale, "' is negative or not finite at element 1")},
      {[&](Tensors& t) { set_float(t.Get(scale).bytes, -1e-9f); },
       StrCat("'", scale, "' is negative or not finite at element 1")},
      {[&](Tensors& t) { t.Get(matrix).bytes[3] = '\x80'; },
       StrCat("'", matrix, "' is -128 at element 3")},
      {[&](Tensors& t) { t.Get(matrix).info.dtype = DType::kU8; },
       StrCat("'", matrix, "' is U8")},
      {[&](Tensors& t) {
         auto& [info, bytes] = t.Get(matrix);
         info.dtype = DType::kF32;
         bytes.resize(4 * bytes.size());
       },
       StrCat("'", matrix, "' is F32")},
      {[&](Tensors& t) {
         auto& [info, bytes] = t.Get(gate);
         info.dtype = DType::kI8;
         bytes.resize(bytes.size() / 4);
       },
       StrCat("'", gate, "' is I8")},
      {[&](Tensors& t) {
         Tensors::One one = t.Get(scale);
         one.info.name = gate + ".scale";
         t.all.push_back(one);
       },
       StrCat("'", gate, ".scale' is not expected")},
      {[&](Tensors& t) { set_float(t.Get(norm).bytes, NAN); },
       StrCat("'", norm, "' is not finite at element 1")}};
  for (const auto& [change, part] : cases) {
    Tensors tensors;
    for (const TensorInfo& info : file.header().tensors) {
      tensors.all.push_back({info, std::string(file.Bytes(info))});
    }
    change(tensors);
    std::vector<TensorToWrite> to_write;
    for (const auto& [info, bytes] : tensors.all) {
      to_write.push_back({info.name, info.dtype, info.shape, bytes});
    }
    CheckpointContent content = made.content;
    content["model.safetensors"] = FormatSafetensors(to_write).value();
    ASSERT_TRUE(WriteCheckpoint(Int8(), content, made.source).ok());
    const absl::Status status = LoadServedModel(Int8(), {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(Int8()), HasSubstr(part)));
  }
  // As a whole of the other kind.
  CheckpointContent content = made.content;
  ASSERT_TRUE(WriteCheckpoint(Int8(), content).ok());
  EXPECT_THAT(std::string(LoadServedModel(Int8(), {}).status().message()),
              AllOf(HasSubstr(StrCat("'", matrix, "' is I8")),
                    HasSubstr(StrCat("'", scale, "' is not expected"))));
  content["model.safetensors"] = std::string(ReadCheckpoint(Fp32())->weights.bytes());
  ASSERT_TRUE(WriteCheckpoint(Int8(), content, made.source).ok());
  EXPECT_THAT(std::string(LoadServedModel(Int8(), {}).status().message()),
              AllOf(HasSubstr(StrCat("'", matrix, "' is F32")),
                    HasSubstr(StrCat("'", scale, "' is missing"))));
}

// Bytes of tensors at any address.
TEST_F(Int8Checkpoint, MayHaveItsTensorsInAnyOrder) {
  ModelConfig config = FindFamily("causal").value()->variants().front();
  config.vocab = 7;  // odd sizes
  config.d_ff = 9;
  config.d_model = 3 * config.heads;
  Write(config);
  const std::vector<float> expected = Outputs(Served(Int8(), std::nullopt));
  const auto made = QuantiseCheckpoint(Fp32()).value();
  const Safetensors file =
      Safetensors::FromBytes(made.content.at("model.safetensors")).value();
  std::vector<TensorToWrite> to_write;
  for (const TensorInfo& info : file.header().tensors) {
    to_write.insert(to_write.begin(),
                    {info.name, info.dtype, info.shape, file.Bytes(info)});
  }
  CheckpointContent content = made.content;
  content["model.safetensors"] = FormatSafetensors(to_write).value();
  ASSERT_TRUE(WriteCheckpoint(Int8(), content, made.source).ok());
  EXPECT_EQ(Outputs(Served(Int8(), std::nullopt)), expected);
}

}  // namespace
}  // namespace mnemon
