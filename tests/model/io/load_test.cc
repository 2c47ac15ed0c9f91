// SPDX-License-Identifier: MIT
#include "model/sequence/load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/io/checkpoint.h"
#include "model/load/load.h"
#include "model/sequence/make_model.h"
#include "model/sequence/tensors.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/safetensors_image.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LoadTest : public testing::Test {
 protected:
  LoadTest() : config_(FindFamily("causal").value()->variants().front()) {}

  std::string Weights(const ModelConfig& config) const {
    const auto model = MakeModel(config).value();
    InitialiseWeights(*model, Initialisation::kSane, 1);
    return FormatWeights(*model).value();
  }
  CheckpointContent Content() const {
    return {{"config.json", ConfigToJson(config_)},
            {"model.safetensors", Weights(config_)}};
  }
  absl::StatusOr<LoadedModel> Load(const CheckpointContent& content,
                                   const LoadOptions& options = {}) const {
    EXPECT_TRUE(WriteCheckpoint(tmp_.Path("c"), content).ok());
    return LoadCheckpoint(tmp_.Path("c"), options);
  }
  // The message of loading with some keys of the configuration changed.
  std::string MessageWith(const nlohmann::json& changes) const {
    CheckpointContent content = Content();
    nlohmann::json json = nlohmann::json::parse(content["config.json"]);
    json.update(changes);
    content["config.json"] = json.dump();
    const absl::Status status = Load(content).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  TemporaryDirectory tmp_;
  ModelConfig config_;
};

TEST_F(LoadTest, EveryVariantOfEveryArchitectureComesBack) {
  for (const Family& entry : Families()) {
    for (const ModelConfig& config : entry.variants()) {
      const std::string weights = Weights(config);
      auto loaded =
          Load({{"config.json", ConfigToJson(config)}, {"model.safetensors", weights}});
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->config, config);
      EXPECT_EQ(FormatWeights(*loaded->model).value(), weights);
      EXPECT_EQ(loaded->model_id.size(), 64u);
      EXPECT_EQ(loaded->tokenizer, nullptr);
      loaded->model->Visit([](const std::string&, at::Tensor& tensor) {
        EXPECT_FALSE(tensor.requires_grad());
      });
    }
  }
}

TEST_F(LoadTest, TokenizerMustFitTheEmbedding) {
  std::string text;
  for (int64_t i = 0; i < config_.vocab; ++i) text += static_cast<char>('0' + i);
  CheckpointContent content = Content();
  content["tokenizer.json"] = MakeCharTokenizer(text).value()->ToJson();
  const auto loaded = Load(content);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tokenizer->size(), config_.vocab);

  content["tokenizer.json"] = MakeCharTokenizer(text + "x").value()->ToJson();
  EXPECT_THAT(std::string(Load(content).status().message()),
              HasSubstr(StrCat("tokenizer.json has ", config_.vocab + 1,
                               " tokens, config.json has vocab ", config_.vocab)));
  content["tokenizer.json"] = "{}";
  EXPECT_THAT(std::string(Load(content).status().message()),
              AllOf(HasSubstr("/c'"), HasSubstr("tokenizer.json")));
}

int64_t PeakKilobytes() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_F(LoadTest, AbsurdConfigsAllocateNothing) {
  (void)MessageWith({{"heads", 0}});
  const int64_t before = PeakKilobytes();
  const int64_t billions = int64_t{1} << 31;
  EXPECT_THAT(MessageWith({{"layers", billions}}), HasSubstr("layers"));
  EXPECT_THAT(MessageWith({{"heads", billions}}), HasSubstr("heads"));
  EXPECT_THAT(MessageWith({{"heads", 0}}), HasSubstr("heads"));
  EXPECT_THAT(MessageWith({{"d_model", 0}}), HasSubstr("d_model"));
  EXPECT_THAT(MessageWith({{"heads", 2 * config_.d_model}}), HasSubstr("heads"));
  EXPECT_THAT(MessageWith({{"vocab", 0}}), HasSubstr("vocab"));
  EXPECT_THAT(MessageWith({{"vocab", -1}}), HasSubstr("vocab"));
  EXPECT_THAT(MessageWith({{"surplus", 1}, {"extra", 2}}),
              AllOf(HasSubstr("surplus"), HasSubstr("extra")));
  // Plausible sizes of another model altogether.
  EXPECT_THAT(
      MessageWith({{"d_model", 16384}, {"d_ff", 65536}, {"layers", 8}}),
      AllOf(HasSubstr("config.json describes"), HasSubstr("model.safetensors has")));
  EXPECT_LT(PeakKilobytes() - before, 32 * 1024);
}

TEST_F(LoadTest, UnknownArchitectureListsTheKnown) {
  CheckpointContent content = Content();
  config_.architecture = "oracle";
  content["config.json"] = ConfigToJson(config_);
  EXPECT_THAT(std::string(Load(content).status().message()),
              AllOf(HasSubstr("'oracle'"), HasSubstr("transformer_xl")));
}

TEST_F(LoadTest, WrongSizesListEveryTensor) {
  const std::string message = MessageWith({{"d_ff", config_.d_ff + 2}});
  EXPECT_THAT(message, HasSubstr("/c'"));
  for (int64_t i = 0; i < config_.layers; ++i) {
    for (const char* part : {"ff.in.weight", "ff.in.bias", "ff.out.weight"}) {
      EXPECT_THAT(message, HasSubstr(StrCat("'layers.", i, ".", part, "'")));
    }
  }
  EXPECT_THAT(
      MessageWith({{"layers", config_.layers + 1}}),
      HasSubstr(StrCat("'layers.", config_.layers, ".ff.in.weight' is missing")));
}

TEST_F(LoadTest, NonFiniteWeightsAreRefusedByDefault) {
  CheckpointContent content = Content();
  std::string& weights = content["model.safetensors"];
  weights.replace(weights.size() - 4, 4, "\xff\xff\xff\x7f");
  EXPECT_THAT(std::string(Load(content).status().message()),
              HasSubstr("is not finite"));
  EXPECT_TRUE(Load(content, {.refuse_non_finite = false}).ok());
}

TEST_F(LoadTest, NonFiniteWeightsOfAnyTensorAreNamed) {
  for (const Family& entry : Families()) {
    const ModelConfig config = entry.variants().front();
    const std::string good = Weights(config);
    const auto header = ParseSafetensors(good);
    ASSERT_TRUE(header.ok()) << header.status();
    for (const TensorInfo& tensor : header->tensors) {
      std::string bad = good;
      bad.replace(tensor.end - 4, 4, "\xff\xff\xff\x7f");
      ASSERT_TRUE(
          WriteCheckpoint(tmp_.Path("c"), {{"config.json", ConfigToJson(config)},
                                           {"model.safetensors", bad}})
              .ok());
      EXPECT_EQ(
          LoadServedModel(tmp_.Path("c"), {}).status().message(),
          StrCat("'", tmp_.Path("c"), "': model.safetensors: tensors do not fit: '",
                 tensor.name, "' is not finite at element ", tensor.elements() - 1));
    }
  }
}

TEST_F(LoadTest, WrongSizesAndNonFiniteWeightsAreOneError) {
  CheckpointContent content = Content();
  const std::string last =
      ParseSafetensors(content["model.safetensors"])->tensors.back().name;
  std::string& weights = content["model.safetensors"];
  weights.replace(weights.size() - 4, 4, "\xff\xff\xff\x7f");
  config_.d_ff += 2;
  content["config.json"] = ConfigToJson(config_);
  for (const absl::Status& status :
       {Load(content).status(), LoadServedModel(tmp_.Path("c"), {}).status()}) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("'layers.0.ff.in.weight' is F32"),
                      HasSubstr(StrCat("'", last, "' is not finite"))));
  }
}

// A file that takes no room on the disk, and as much as the server has in memory.
TEST_F(LoadTest, ALargeSparseFileIsRefusedBeforeItIsRead) {
  CheckpointContent content = Content();
  ASSERT_TRUE(WriteCheckpoint(tmp_.Path("c"), content).ok());
  const std::string weights = tmp_.Path("c/model.safetensors");
  const auto refused_soon = [&](const std::string& why) {
    ASSERT_EQ(truncate(weights.c_str(), int64_t{6} << 30), 0);
    const int64_t before = PeakKilobytes();
    const std::clock_t begin = std::clock();  // the process's own time
    for (const absl::Status& status : {LoadCheckpoint(tmp_.Path("c")).status(),
                                       LoadServedModel(tmp_.Path("c"), {}).status()}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    }
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
    EXPECT_LT(PeakKilobytes() - before, 100 * 1024);
  };
  refused_soon("has 6442450944 bytes, manifest.json says");
  std::filesystem::remove(tmp_.Path("c/manifest.json"));
  refused_soon("safetensors: ");
  // Its header describes all of it.
  const int64_t floats = (int64_t{6} << 30) / 4 - 32;
  std::string header = StrCat("{\"w\":{\"dtype\":\"F32\",\"shape\":[", floats,
                              "],\"data_offsets\":[0,", 4 * floats, "]}}");
  header.resize(120, ' ');
  tmp_.Put("c/model.safetensors", Image(header));
  refused_soon("bytes of weights, model.safetensors has 6442450944 bytes");
}

TEST_F(LoadTest, WeightsThatDoNotMatchTheManifestAreRefusedAsThat) {
  ASSERT_TRUE(WriteCheckpoint(tmp_.Path("c"), Content()).ok());
  const std::string good = tmp_.Get("c/model.safetensors");
  std::string changed = good, not_finite = good;
  changed[changed.size() - 4] ^= 1;
  not_finite.replace(not_finite.size() - 4, 4, "\xff\xff\xff\x7f");
  ModelConfig narrow = config_;
  narrow.d_ff += 2;
  for (const std::string& bad : {changed, not_finite, Weights(narrow)}) {
    tmp_.Put("c/model.safetensors", bad);
    for (const absl::Status& status : {LoadCheckpoint(tmp_.Path("c")).status(),
                                       LoadServedModel(tmp_.Path("c"), {}).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("/c/model.safetensors"), HasSubstr("manifest.json")));
    }
  }
  tmp_.Put("c/model.safetensors", good);
  const auto served =
      LoadServedModel(tmp_.Path("c"), {.decoder = {.target = "portable"}});
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->kernels, "portable");
}

}  // namespace
}  // namespace mnemon
