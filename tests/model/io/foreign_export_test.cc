// SPDX-License-Identifier: MIT
#include "model/load/foreign_export.h"

#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/load/load.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "model/text/bpe_trainer.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kData[] = MNEMON_SOURCE_DIR "/tests/golden/data/hf/";

std::vector<float> LogitsOf(const std::string& path) {
  const absl::StatusOr<ServedModel> model = LoadServedModel(path, {});
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const auto arena = *StateArena::Create(model->decoder->spec(), {.slots = 1});
  const std::vector<int32_t> tokens = {1, 5, 3, 6};
  const Segment segment = {.slot = *arena->Acquire(), .position = 0, .tokens = tokens};
  std::vector<float> logits(static_cast<size_t>(model->description.vocab));
  EXPECT_TRUE(model->decoder->Step({&segment, 1}, *arena, logits.data()).ok());
  return logits;
}

std::string TextOf(const std::string& path) { return *ReadFile(path, 1 << 24); }

TEST(ExportToHuggingFace, ADirectoryStaysByteForByte) {
  const TemporaryDirectory tmp;
  for (const char* const name : {"gpt2", "gemma3_text", "qwen3"}) {
    const std::string from = StrCat(kData, name), to = tmp.Path(name);
    ASSERT_TRUE(ExportToHuggingFace(from, to).ok());
    EXPECT_EQ(TextOf(to + "/config.json"), TextOf(from + "/config.json"));
    const auto before = Safetensors::Read(from + "/model.safetensors").value();
    const auto after = Safetensors::Read(to + "/model.safetensors").value();
    ASSERT_EQ(after.header().tensors.size(), before.header().tensors.size());
    for (const TensorInfo& tensor : before.header().tensors) {
      const TensorInfo* const again = after.Find(tensor.name);
      ASSERT_NE(again, nullptr) << tensor.name;
      EXPECT_EQ(again->dtype, tensor.dtype);
      EXPECT_EQ(again->shape, tensor.shape);
      EXPECT_EQ(after.Bytes(*again), before.Bytes(tensor)) << tensor.name;
    }
    EXPECT_EQ(LogitsOf(to), LogitsOf(from));
    EXPECT_TRUE(absl::IsAlreadyExists(ExportToHuggingFace(from, to)));
  }
}

TEST(ExportToHuggingFace, ALlamaOfOursIsOneOfTheirs) {
  const TemporaryDirectory tmp;
  int number = 0;
  for (const ModelConfig& config : FindFamily("llama").value()->variants()) {
    const auto model = MakeModel(config).value();
    InitialiseWeights(*model, Initialisation::kSane, 3);
    std::string text;
    for (int64_t i = 0; i < config.vocab; ++i) text += static_cast<char>('a' + i);
    const auto tokenizer = MakeCharTokenizer(text).value();
    const std::string from = tmp.Path(StrCat("own", number)),
                      to = tmp.Path(StrCat("theirs", number));
    ++number;
    ASSERT_TRUE(WriteCheckpoint(from, {{"config.json", ConfigToJson(config)},
                                       {"model.safetensors", *FormatWeights(*model)},
                                       {"tokenizer.json", tokenizer->ToJson()}})
                    .ok());
    const absl::Status written = ExportToHuggingFace(from, to);
    ASSERT_TRUE(written.ok()) << written;
    EXPECT_EQ(LogitsOf(to), LogitsOf(from));
    const auto theirs = LoadServedModel(to, {}).value();
    EXPECT_EQ(theirs.architecture, "llama");
    ASSERT_NE(theirs.tokenizer, nullptr) << theirs.no_tokenizer;
    EXPECT_EQ(theirs.tokenizer->Encode(text).value(), tokenizer->Encode(text).value());
    EXPECT_EQ(theirs.tokenizer->DecodeText(std::vector<int32_t>{2, 0}, true), "ca");
  }
}

TEST(ExportToHuggingFace, ATokenizerOfBytePairsStays) {
  const TemporaryDirectory tmp;
  auto trainer = BpeTrainer::Create({"<end>"}).value();
  ASSERT_TRUE(trainer.Add("low low lower lowest").ok());
  const std::string json = trainer.Train(260).value();
  ModelConfig config = FindFamily("llama").value()->variants().front();
  config.vocab = 260;
  const auto model = MakeModel(config).value();
  InitialiseWeights(*model, Initialisation::kSane, 3);
  ASSERT_TRUE(
      WriteCheckpoint(tmp.Path("own"), {{"config.json", ConfigToJson(config)},
                                        {"model.safetensors", *FormatWeights(*model)},
                                        {"tokenizer.json", json}})
          .ok());
  ASSERT_TRUE(ExportToHuggingFace(tmp.Path("own"), tmp.Path("theirs")).ok());
  EXPECT_EQ(TextOf(tmp.Path("theirs/tokenizer.json")), json);
}

TEST(ExportToHuggingFace, WhatHasNoOtherFormIsRefused) {
  const TemporaryDirectory tmp;
  const ModelConfig config = FindFamily("fast_weights").value()->variants().front();
  const auto model = MakeModel(config).value();
  InitialiseWeights(*model, Initialisation::kSane, 3);
  ASSERT_TRUE(
      WriteCheckpoint(tmp.Path("own"), {{"config.json", ConfigToJson(config)},
                                        {"model.safetensors", *FormatWeights(*model)}})
          .ok());
  const absl::Status refused = ExportToHuggingFace(tmp.Path("own"), tmp.Path("theirs"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'fast_weights'"));
  EXPECT_FALSE(fs::exists(tmp.Path("theirs")));
}

}  // namespace
}  // namespace mnemon
