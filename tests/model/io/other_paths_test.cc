// SPDX-License-Identifier: MIT
// Files and directories of other kinds, wherever a model is read.
#include "model/io/other_paths.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/files/file_kind.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/config.h"
#include "model/io/foreign_files.h"
#include "model/io/safetensors.h"
#include "model/load/model_files.h"
#include "tests/fakes/files_of_kinds.h"
#include "tests/model/io/temporary_directory.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OtherPaths : public testing::Test {
 protected:
  OtherPaths() {
    ModelConfig config;
    config.architecture = "causal";
    config.d_model = config.d_ff = config.vocab = 4;
    config.heads = config.layers = 1;
    const std::string data(4, '\0');
    const TensorToWrite tensor = {"w", DType::kF32, {1}, data};
    fs::create_directory(tmp_.Path("own"));
    tmp_.Put("own/config.json", ConfigToJson(config));
    tmp_.Put("own/model.safetensors", *FormatSafetensors({&tensor, 1}));
    fs::copy(MNEMON_SOURCE_DIR "/tests/golden/data/hf/qwen3", tmp_.Path("hf"),
             fs::copy_options::recursive);
  }

  // The error of the model `name` with the file `file` of this content.
  std::string With(const std::string& name, const std::string& file,
                   const std::string& content) const {
    const std::string path = StrCat(name, "/", file);
    const bool there = fs::exists(tmp_.Path(path));
    const std::string before = there ? tmp_.Get(path) : "";
    tmp_.Put(path, content);
    const std::string fault = Fault(name);
    fs::remove(tmp_.Path(path));
    if (there) tmp_.Put(path, before);
    return fault;
  }
  std::string Fault(const std::string& name) const {
    const auto files = ReadModelFiles(tmp_.Path(name));
    if (!files.ok()) return std::string(files.status().message());
    return StrCat(std::string(files->no_tokenizer.message()),
                  std::string(files->no_chat_program.message()));
  }

  const TemporaryDirectory tmp_;
};

TEST_F(OtherPaths, EachReaderNamesEachKind) {
  struct Reader {
    const char* file;
    std::function<std::string(const std::string& content)> fault;
    std::optional<FileKind> taken = {};
  };
  const auto part = [&](const char* model, const char* file) {
    return [this, model, file](const std::string& content) {
      return With(model, file, content);
    };
  };
  const Reader readers[] = {
      {"some.file",
       [&](const std::string& content) {
         tmp_.Put("some.file", content);
         return Fault("some.file");
       },
       FileKind::kGguf},
      {"some.file",
       [&](const std::string& content) {
         tmp_.Put("some.file", content);
         return std::string(
             Safetensors::Read(tmp_.Path("some.file")).status().message());
       },
       FileKind::kSafetensors},
      {"config.json", part("own", "config.json")},
      {"tokenizer.json", part("own", "tokenizer.json")},
      {"tokenizer_config.json", part("own", "tokenizer_config.json")},
      {"manifest.json", part("own", "manifest.json")},
      {"model.safetensors", part("own", "model.safetensors"), FileKind::kSafetensors},
      {"config.json", part("hf", "config.json")},
      {"generation_config.json", part("hf", "generation_config.json")},
      {"tokenizer.json", part("hf", "tokenizer.json")},
      {"tokenizer_config.json", part("hf", "tokenizer_config.json")},
      {"chat_template.json", part("hf", "chat_template.json")},
      {"model.safetensors", part("hf", "model.safetensors"), FileKind::kSafetensors},
      {"model.safetensors.index.json",
       [&](const std::string& content) {
         fs::rename(tmp_.Path("hf/model.safetensors"), tmp_.Path("aside"));
         const std::string fault = With("hf", "model.safetensors.index.json", content);
         fs::rename(tmp_.Path("aside"), tmp_.Path("hf/model.safetensors"));
         return fault;
       }},
  };
  for (const Reader& reader : readers) {
    for (const auto& [kind, begin] : FilesOfKinds()) {
      if (kind == reader.taken) continue;
      EXPECT_THAT(reader.fault(begin),
                  AllOf(HasSubstr(StrCat(" is ", Describe(kind))),
                        HasSubstr(reader.file), Not(HasSubstr("\n"))));
    }
  }
}

// As long as a length of 14064895815 bytes may be, no more than the beginning is read.
TEST_F(OtherPaths, LargeFilesAreNotRead) {
  for (const auto& [kind, begin] : FilesOfKinds()) {
    if (kind == FileKind::kSafetensors) continue;
    for (const char* model : {"own", "hf"}) {
      const std::string weights = tmp_.Path(StrCat(model, "/model.safetensors"));
      tmp_.Put(StrCat(model, "/model.safetensors"), begin);
      fs::resize_file(weights, int64_t{1} << 30);
      EXPECT_THAT(Fault(model), HasSubstr(Describe(kind)));
      EXPECT_THAT(std::string(Safetensors::Read(weights).status().message()),
                  HasSubstr(Describe(kind)));
    }
  }
}

TEST_F(OtherPaths, JsonOfOthersIsNamed) {
  for (const auto& [kind, json] : JsonOfKinds()) {
    // Some are only beginnings.
    tmp_.Put("some.json", json);
    EXPECT_THAT(Fault("some.json"),
                AllOf(HasSubstr("some.json' is "), HasSubstr(Describe(kind))));
  }
  for (const char* config :
       {R"({"architectures": ["X"], "hidden_size": 8, "n_layer": 2})",
        R"({"_class_name": "UNet", "_diffusers_version": "0.6.0"})",
        R"({"dim": 4096, "n_heads": 32, "n_layers": 32})"}) {
    EXPECT_THAT(With("own", "config.json", config),
                AllOf(HasSubstr("config.json' is a"), Not(HasSubstr("missing key"))));
  }
  // What might be meant as ours is told key by key.
  EXPECT_THAT(With("own", "config.json", R"({"d_model": 4, "heads": 1, "n_layer": 2})"),
              AllOf(HasSubstr("missing key architecture"), HasSubstr("'n_layer'")));
  EXPECT_THAT(With("hf", "tokenizer.json", JsonOfKinds()[3].second + "}"),
              HasSubstr("it is a vocabulary (vocab.json)"));
}

TEST_F(OtherPaths, AModelIsNoOtherFile) {
  tmp_.Put("notes.txt", "x");
  EXPECT_THAT(Fault("notes.txt"),
              HasSubstr("notes.txt' is not a directory and no GGUF file"));
  tmp_.Put("model.bin", "x");
  EXPECT_THAT(Fault("model.bin"), HasSubstr("pickle is never read"));
  EXPECT_THAT(Fault("own/model.safetensors"),
              HasSubstr("is a safetensors file: weights alone; where a model is "
                        "wanted, give the directory that holds it"));
  EXPECT_TRUE(CheckIsDirectory(tmp_.Path("own")).ok());
  EXPECT_TRUE(CheckIsDirectory(tmp_.Path("none")).ok());
}

TEST_F(OtherPaths, DirectoriesOfOthersAreNamed) {
  struct Case {
    std::vector<const char*> names;  // a folder ends with /
    const char* part;
  };
  const Case cases[] = {
      {{"adapter_config.json", "adapter_model.safetensors"}, "is a PEFT adapter"},
      {{"model_index.json", "unet/"}, "is a pipeline of diffusers"},
      {{"saved_model.pb", "variables/"}, "is a TensorFlow SavedModel"},
      {{"params.json", "consolidated.00.pth"}, "makers' own format (params.json)"},
      {{"blobs/", "refs/", "snapshots/"}, "is a model's folder in the hub's cache"},
      {{"checkpoint-500/", "checkpoint-1000/", "checkpoint-x/", "trainer_state.json"},
       "give one, as "},
      {{"a.gguf", "README.md"}, "holds 'a.gguf' but no config.json: give the path"},
      {{"pytorch_model.bin"}, "holds 'pytorch_model.bin' but no config.json; pickle"},
      {{"tf_model.h5"}, "holds 'tf_model.h5' but no config.json: such weights"},
      {{"flax_model.msgpack"}, "holds 'flax_model.msgpack'"},
      {{"model.onnx"}, "holds 'model.onnx'"},
      {{"lora.safetensors"}, "holds 'lora.safetensors' but no config.json: a model's "},
      {{"model.safetensors"}, "cannot open '"},
      {{"README.md"}, "cannot open '"},
      {{}, "cannot open '"},
  };
  for (const Case& c : cases) {
    fs::remove_all(tmp_.Path("other"));
    fs::create_directory(tmp_.Path("other"));
    for (const std::string name : c.names) {
      if (name.ends_with('/')) {
        fs::create_directory(tmp_.Path("other/" + name));
      } else {
        tmp_.Put("other/" + name, "x");
      }
    }
    EXPECT_THAT(Fault("other"),
                AllOf(HasSubstr(c.part), HasSubstr("/other"), Not(HasSubstr("\n"))));
  }
  fs::create_directory(tmp_.Path("other/checkpoint-500"));
  fs::create_directory(tmp_.Path("other/checkpoint-1000"));
  EXPECT_THAT(Fault("other"), HasSubstr("/other/checkpoint-1000'"));
  // A configuration without its weights.
  fs::remove(tmp_.Path("hf/model.safetensors"));
  tmp_.Put("hf/tf_model.h5", "x");
  EXPECT_THAT(Fault("hf"), HasSubstr("holds 'tf_model.h5' but no model.safetensors"));
  tmp_.Put("hf/adapter_config.json", "{}");
  EXPECT_THAT(Fault("hf"), HasSubstr("is a PEFT adapter"));
  fs::remove(tmp_.Path("own/model.safetensors"));
  tmp_.Put("own/model.onnx", "x");
  EXPECT_THAT(Fault("own"), HasSubstr("holds 'model.onnx' but no model.safetensors"));
}

TEST_F(OtherPaths, TokenizersOfOtherFormatsAreNamed) {
  const std::string dir = tmp_.Path("hf");
  fs::remove(tmp_.Path("hf/tokenizer.json"));
  EXPECT_TRUE(CheckOtherTokenizers(dir).ok());
  EXPECT_EQ(Fault("hf"), "");
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.model"}) {
    tmp_.Put(StrCat("hf/", name), "x");
  }
  EXPECT_EQ(CheckOtherTokenizers(dir).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Fault("hf"),
              HasSubstr("has no tokenizer.json but 'merges.txt', 'tokenizer.model', "
                        "'vocab.json': make one of it"));
}

TEST_F(OtherPaths, QuantizedDirectoriesAreNamed) {
  std::string config = tmp_.Get("hf/config.json");
  config.insert(config.find('{') + 1,
                R"("quantization_config": {"bits": 4, "quant_method": "awq"},)");
  EXPECT_THAT(With("hf", "config.json", config),
              HasSubstr("quantization_config: weights quantised by 'awq' are not "
                        "supported: take the model that was quantised"));
  const std::string data(4, '\0');
  const TensorToWrite tensor = {
      "model.layers.0.mlp.up_proj.qweight", DType::kI32, {1}, data};
  EXPECT_THAT(With("hf", "model.safetensors", *FormatSafetensors({&tensor, 1})),
              HasSubstr("'model.layers.0.mlp.up_proj.qweight' is quantised by GPTQ or "
                        "AWQ, which is not supported"));
}

TEST_F(OtherPaths, TextsAreReadWithoutWeights) {
  fs::resize_file(tmp_.Path("hf/model.safetensors"), 3);
  const auto files = ReadForeignTexts(tmp_.Path("hf"));
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->config_json, tmp_.Get("hf/config.json"));
  EXPECT_FALSE(files->verified.valid());
}

}  // namespace
}  // namespace mnemon
