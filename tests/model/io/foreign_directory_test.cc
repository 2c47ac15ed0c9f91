// SPDX-License-Identifier: MIT
// Directories of Hugging Face as they lie on disks: whole and in shards, as links of
// the hub's cache, and with faults.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/foreign_files.h"
#include "model/load/load.h"
#include "model/load/model_files.h"
#include "nlohmann/json.hpp"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kSource[] = MNEMON_SOURCE_DIR "/tests/golden/data/hf/qwen3";
constexpr char kQuery[] = "model.layers.1.self_attn.q_proj.weight";

struct Tensor {
  DType type = DType::kBF16;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

class ForeignDirectory : public testing::Test {
 protected:
  ForeignDirectory() {
    config_ =
        nlohmann::json::parse(*ReadFile(StrCat(kSource, "/config.json"), 1 << 20));
    const Safetensors file = *Safetensors::Read(StrCat(kSource, "/model.safetensors"));
    for (const TensorInfo& tensor : file.header().tensors) {
      tensors_[tensor.name] = {tensor.dtype, tensor.shape,
                               std::string(file.Bytes(tensor))};
    }
    fs::create_directories(Dir());
  }

  std::string Dir() const { return tmp_.Path("model"); }
  static void Write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string FileOf(const Tensors& tensors) {
    std::vector<TensorToWrite> all;
    for (const auto& [name, tensor] : tensors) {
      all.push_back({name, tensor.type, tensor.shape, tensor.bytes});
    }
    return *FormatSafetensors(all);
  }
  void WriteConfig() const { Write(Dir() + "/config.json", config_.dump()); }
  void WriteWhole() const {
    WriteConfig();
    Write(Dir() + "/model.safetensors", FileOf(tensors_));
  }
  // Every other tensor in a file of its own.
  nlohmann::json WriteShards() const {
    WriteConfig();
    nlohmann::json index = {{"metadata", {{"total_size", 1}}}};
    Tensors parts[2];
    size_t next = 0;
    for (const auto& [name, tensor] : tensors_) {
      index["weight_map"][name] = StrCat("part-", next % 2, ".safetensors");
      parts[next++ % 2][name] = tensor;
    }
    for (int i : {0, 1}) {
      Write(StrCat(Dir(), "/part-", i, ".safetensors"), FileOf(parts[i]));
    }
    WriteIndex(index);
    return index;
  }
  void WriteIndex(const nlohmann::json& index) const {
    Write(Dir() + "/model.safetensors.index.json", index.dump());
  }

  static absl::StatusOr<ServedModel> Load(const std::string& dir,
                                          const ServeModelOptions& options = {}) {
    return LoadServedModel(dir, options);
  }
  std::string Fault() const { return std::string(Load(Dir()).status().message()); }
  // Logits of the first tokens of a session.
  static std::vector<float> Logits(const ServedModel& model) {
    const auto arena = *StateArena::Create(model.decoder->spec(), {.slots = 1});
    const std::vector<int32_t> tokens = {1, 5, 3, 8};
    const Segment segment = {
        .slot = *arena->Acquire(), .position = 0, .tokens = tokens};
    std::vector<float> logits(static_cast<size_t>(model.description.vocab));
    EXPECT_TRUE(model.decoder->Step({&segment, 1}, *arena, logits.data()).ok());
    return logits;
  }
  std::vector<float> Expected() const { return Logits(*Load(kSource)); }

  const TemporaryDirectory tmp_;
  nlohmann::json config_;
  Tensors tensors_;
};

TEST_F(ForeignDirectory, ShardsAreTheSameModelAsOneFile) {
  WriteShards();
  const auto model = Load(Dir());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(Logits(*model), Expected());
  EXPECT_EQ(model->architecture, "qwen3");
  EXPECT_EQ(model->format, WeightFormat::kBf16);
  EXPECT_EQ(model->tensors.size(), tensors_.size());
  EXPECT_EQ(model->parameters, Load(kSource)->parameters);
  EXPECT_EQ(nlohmann::json::parse(model->config_json), config_);
}

// Where nothing is rounded the stored type does not show.
TEST_F(ForeignDirectory, WiderFloatsAreTheSameModel) {
  for (auto& [name, tensor] : tensors_) {
    std::string wide;
    for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
      wide += std::string("\0\0", 2) + tensor.bytes.substr(i, 2);
    }
    tensor.bytes = wide;
    tensor.type = DType::kF32;
  }
  WriteWhole();
  const auto model = Load(Dir());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->format, WeightFormat::kFp32);
  EXPECT_EQ(Logits(*model), Expected());
}

// Numbers in bfloat16 take no more bytes in memory, except those of norms, and none is
// kept twice.
TEST_F(ForeignDirectory, AnEmbeddingOfBf16StaysSo) {
  config_["vocab_size"] = 1600;
  for (const bool tied : {false, true}) {
    config_["tie_word_embeddings"] = tied;
    Tensor& table = tensors_["model.embed_tokens.weight"];
    const int64_t width = table.shape[1];
    const std::string row = table.bytes.substr(0, 2 * width);
    table.shape[0] = 1600;
    table.bytes.clear();
    for (int i = 0; i < 1600; ++i) table.bytes += row;
    tensors_["lm_head.weight"] = table;
    if (tied) tensors_.erase("lm_head.weight");
    WriteWhole();
    int64_t stored = 0;
    for (const auto& [name, tensor] : tensors_) {
      stored += static_cast<int64_t>(tensor.bytes.size());
    }
    std::vector<std::vector<float>> logits;
    for (const WeightFormat format : {WeightFormat::kFp32, WeightFormat::kBf16}) {
      ServeModelOptions options;
      options.decoder.format = format;
      const auto model = Load(Dir(), options);
      ASSERT_TRUE(model.ok()) << model.status();
      logits.push_back(Logits(*model));
      if (format == WeightFormat::kFp32) continue;
      EXPECT_LT(model->decoder->weight_bytes(), stored + stored / 3) << tied;
    }
    EXPECT_EQ(logits[0], logits[1]);
  }
}

TEST_F(ForeignDirectory, TheModelIdIsThatOfAllThatIsRead) {
  WriteShards();
  std::vector<std::string> ids = {Load(Dir())->model_id};
  EXPECT_EQ(Load(Dir())->model_id, ids[0]);
  Write(Dir() + "/tokenizer.json", "{}");
  ids.push_back(Load(Dir())->model_id);
  config_["rms_norm_eps"] = 0.25;
  WriteConfig();
  ids.push_back(Load(Dir())->model_id);
  tensors_[kQuery].bytes[0] ^= 1;
  WriteShards();
  ids.push_back(Load(Dir())->model_id);
  fs::remove(Dir() + "/model.safetensors.index.json");
  WriteWhole();
  ids.push_back(Load(Dir())->model_id);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
}

// blobs/0, .. and snapshots/abc/x -> ../../blobs/0; refs/main names abc.
TEST_F(ForeignDirectory, LinksOfTheHubsCacheAreFollowedWithinIt) {
  WriteShards();
  const std::string hub = tmp_.Path("models--a--b"), snapshot = hub + "/snapshots/abc";
  for (const char* const part : {"/blobs", "/refs", "/snapshots/abc"}) {
    fs::create_directories(hub + part);
  }
  Write(hub + "/refs/main", "abc");
  int blobs = 0;
  for (const auto& entry : fs::directory_iterator(Dir())) {
    const std::string blob = StrCat("blobs/", blobs++);
    fs::rename(entry.path(), StrCat(hub, "/", blob));
    fs::create_symlink("../../" + blob,
                       snapshot + "/" + entry.path().filename().string());
  }
  for (const std::string& dir : {snapshot, hub}) {
    const auto model = Load(dir);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(Logits(*model), Expected());
  }
  const std::string part = snapshot + "/part-1.safetensors";
  const fs::path blob = fs::canonical(part);
  fs::rename(blob, tmp_.Path("elsewhere"));
  EXPECT_EQ(Load(snapshot).status().code(), absl::StatusCode::kNotFound);
  fs::create_symlink("../../elsewhere", blob);
  const absl::Status status = Load(snapshot).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(part), HasSubstr("outside of the model's folder")));
}

TEST_F(ForeignDirectory, ALinkInAnotherDirectoryLeadsNowhereElse) {
  WriteWhole();
  fs::rename(Dir() + "/model.safetensors", tmp_.Path("w"));
  fs::create_symlink("../w", Dir() + "/model.safetensors");
  EXPECT_THAT(Fault(), HasSubstr("outside of the model's folder"));
  // Nor in one that only looks like a snapshot.
  fs::create_directories(tmp_.Path("snapshots"));
  fs::rename(Dir(), tmp_.Path("snapshots/m"));
  EXPECT_THAT(std::string(Load(tmp_.Path("snapshots/m")).status().message()),
              HasSubstr("model.safetensors"));
  fs::rename(tmp_.Path("w"), tmp_.Path("snapshots/w"));
  EXPECT_THAT(std::string(Load(tmp_.Path("snapshots/m")).status().message()),
              HasSubstr("outside of the model's folder"));
}

TEST_F(ForeignDirectory, FaultsOfTheIndexNameIt) {
  nlohmann::json index = WriteShards();
  const auto fault = [&](const nlohmann::json& changed) {
    WriteIndex(changed);
    return Fault();
  };
  for (const char* const outside :
       {"../part-0.safetensors", "/tmp/part-0.safetensors", "part-0.bin"}) {
    nlohmann::json changed = index;
    changed["weight_map"][kQuery] = outside;
    EXPECT_THAT(fault(changed),
                AllOf(HasSubstr("index.json"), HasSubstr(outside), HasSubstr(kQuery)));
  }
  nlohmann::json changed = index;
  changed["weight_map"]["more"] = "part-0.safetensors";
  EXPECT_THAT(fault(changed), HasSubstr("'more' in 'part-0.safetensors', which does"));
  changed = index;
  changed["weight_map"]["more"] = "part-2.safetensors";
  EXPECT_THAT(fault(changed), HasSubstr("part-2.safetensors"));
  EXPECT_THAT(fault({{"weight_map", nlohmann::json::object()}}),
              HasSubstr("weight_map"));
  EXPECT_THAT(fault(nlohmann::json::array()), HasSubstr("weight_map"));
  for (int i = 0; i < 2000; ++i) {
    changed["weight_map"][StrCat("t", i)] = StrCat(i, ".safetensors");
  }
  EXPECT_THAT(fault(changed), HasSubstr("more than 1024"));
}

TEST_F(ForeignDirectory, FaultsOfTensorsNameThemAsTheFileDoes) {
  const Tensors sound = tensors_;
  const auto fault = [&](const std::function<void()>& change) {
    tensors_ = sound;
    change();
    WriteWhole();
    return Fault();
  };
  EXPECT_THAT(
      fault([&] { tensors_.erase(kQuery); }),
      HasSubstr(StrCat("'", kQuery, "' is missing, expected F32 or BF16 or F16")));
  EXPECT_THAT(
      fault([&] { std::swap(tensors_[kQuery].shape[0], tensors_[kQuery].shape[1]); }),
      HasSubstr(StrCat("'", kQuery, "' is BF16 [")));
  EXPECT_THAT(fault([&] { tensors_[kQuery].type = DType::kI16; }),
              HasSubstr(StrCat("'", kQuery, "' is I16 [")));
  EXPECT_THAT(fault([&] { tensors_["more"] = tensors_[kQuery]; }),
              HasSubstr("'more' is not expected"));
  EXPECT_THAT(fault([&] { tensors_[kQuery].bytes.replace(6, 2, "\xc0\x7f"); }),
              HasSubstr(StrCat("'", kQuery, "' is not finite at element 3")));
  EXPECT_EQ(
      fault([&] { tensors_["model.layers.0.rotary_emb.inv_freq"] = sound.at(kQuery); }),
      "");
}

TEST_F(ForeignDirectory, OtherFilesAreChecked) {
  WriteWhole();
  Write(Dir() + "/generation_config.json", R"({"eos_token_id": [2, 110]})");
  EXPECT_THAT(Fault(),
              AllOf(HasSubstr("generation_config.json"),
                    HasSubstr("eos_token_id is [2,110], not of tokens 0..109")));
  Write(Dir() + "/generation_config.json",
        R"({"eos_token_id": [109, 7, 109], "temperature": 0.6, "top_k": 20,
            "top_p": 0.95, "do_sample": true, "max_length": 20, "min_p": null})");
  EXPECT_EQ(ReadModelFiles(Dir())->generation,
            (GenerationDefaults{
                .end_tokens = {7, 109},
                .sampling = {.temperature = 0.6, .top_k = 20, .top_p = 0.95}}));
  Write(Dir() + "/generation_config.json", R"({"do_sample": false, "top_p": 0.9})");
  EXPECT_EQ(ReadModelFiles(Dir())->generation.sampling.temperature, 0);
  Write(Dir() + "/generation_config.json", R"({"top_p": 1.5})");
  EXPECT_THAT(Fault(), AllOf(HasSubstr("generation_config.json"), HasSubstr("top_p")));
  Write(Dir() + "/generation_config.json", R"({"top_k": "20"})");
  EXPECT_THAT(Fault(), AllOf(HasSubstr("top_k"), HasSubstr("\"20\"")));
  Write(Dir() + "/generation_config.json", "[");
  EXPECT_THAT(Fault(), HasSubstr("generation_config.json"));
  fs::remove(Dir() + "/generation_config.json");
  fs::remove(Dir() + "/model.safetensors");
  EXPECT_THAT(Fault(), HasSubstr("model.safetensors"));
  Write(Dir() + "/pytorch_model.bin", "x");
  EXPECT_THAT(Fault(), AllOf(HasSubstr("pytorch_model.bin"), HasSubstr("pickle")));
  WriteWhole();
  Write(Dir() + "/config.json", R"({"model_type": )");
  EXPECT_THAT(Fault(), HasSubstr("config.json"));
}

TEST_F(ForeignDirectory, TextsOfChatsAreReadAsTheyAre) {
  WriteWhole();
  auto files = ReadForeignFiles(Dir());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->chat_template_jinja, std::nullopt);
  EXPECT_EQ(files->tokenizer_config_json, std::nullopt);
  Write(Dir() + "/chat_template.jinja", "{{ messages }}");
  Write(Dir() + "/tokenizer_config.json", "{");
  files = ReadForeignFiles(Dir());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->chat_template_jinja, "{{ messages }}");
  EXPECT_EQ(files->tokenizer_config_json, "{");
}

TEST_F(ForeignDirectory, TheContextMayBeLess) {
  const auto model = Load(kSource, {.max_context = 5});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->decoder->spec().max_positions(), 5);
  EXPECT_EQ(Logits(*model), Expected());
  EXPECT_THAT(std::string(Load(kSource, {.max_context = 1 << 30}).status().message()),
              HasSubstr("--max-context 1073741824: the model has"));
}

TEST_F(ForeignDirectory, NothingOfItIsTakenForOurs) {
  const ModelFiles files = *ReadModelFiles(kSource);
  EXPECT_FALSE(files.config.has_value());
  EXPECT_EQ(RequireOwn(files).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace mnemon
