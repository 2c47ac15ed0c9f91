// SPDX-License-Identifier: MIT
// Paths as users give them to the commands: files of other kinds are named, and a model
// is taken wherever a tokenizer or a template is.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file_kind.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/safetensors.h"
#include "model/text/tokenizer.h"
#include "tests/fakes/files_of_kinds.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Arguments = std::vector<std::string>;

constexpr char kGguf[] = MNEMON_SOURCE_DIR "/tests/model/io/data/gguf/llama.gguf";

class WrongKindTest : public testing::Test {
 protected:
  WrongKindTest() {
    tmp_.Put("text.txt", "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc");
    tmp_.Put("texts.jsonl", "\"abc\"\n\"a b\"\n");
    tmp_.Put("ids.jsonl", "[1, 2]\n");
    tmp_.Put("chats.jsonl", "{\"messages\": \"M\"}\n");
    tmp_.Put("run.toml",
             StrCat("[model]\narchitecture = \"fast_weights\"\nd_model = 8\nheads = 2\n"
                    "layers = 1\nd_ff = 8\n[data]\ntext = \"",
                    tmp_.Path("text.txt"),
                    "\"\nseq_len = 2\nbatch = 1\n[train]\nsteps = 1\n"));
    tmp_.Put("tokenizer.json",
             MakeCharTokenizer("abcdefghijklmno\xc3\xa9\n").value()->ToJson());
    Import(Model(), {"--tokenizer", tmp_.Path("tokenizer.json")});
  }
  std::string Model() const { return tmp_.Path("model"); }
  std::string Out() const { return tmp_.Path("out"); }
  static std::string Golden(const std::string& file) {
    return StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/transformer/", file);
  }
  static void Import(const std::string& out, Arguments more) {
    Arguments arguments = {"import",
                           "--from",
                           "labml",
                           "--config",
                           Golden("config.json"),
                           "--weights",
                           Golden("weights.safetensors"),
                           "--out",
                           out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = RunTool(arguments);
    ASSERT_EQ(ran.code, 0) << ran.err;
  }

  const TemporaryDirectory tmp_;
};

TEST_F(WrongKindTest, EachCommandNamesEachKind) {
  const std::string path = tmp_.Path("some.file"), text = tmp_.Path("text.txt"),
                    config = Golden("config.json"),
                    weights = Golden("weights.safetensors"),
                    toml = tmp_.Path("run.toml");
  enum Wants { kModel, kWeights, kJson, kText, kAlphabet };
  struct Reader {
    Wants wants;
    Arguments arguments;
  };
  const auto labml = [&](const std::string& c, const std::string& w,
                         const Arguments& more) {
    Arguments arguments = {"import",    "--from", "labml", "--config", c,
                           "--weights", w,        "--out", Out()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const Reader readers[] = {
      {kModel, {"inspect", path}},
      {kModel, {"sample", "--checkpoint", path, "--prompt", "a", "--tokens", "1"}},
      {kModel, {"eval", "--checkpoint", path, "--text", text}},
      {kModel, {"score", "--checkpoint", path, "--tokens", weights, "--out", Out()}},
      {kModel, {"quantize", path, "--out", Out()}},
      {kModel, {"export", "--to", "hf", "--checkpoint", path, "--out", Out()}},
      {kModel, {"import", "--from", "gguf", path, "--out", Out()}},
      {kModel,
       {"fit", "--config", toml, "--out", Out(), "--set", "train.from=" + path}},
      {kModel,
       {"fit", "--config", toml, "--out", Out(), "--set", "data.tokenizer=" + path}},
      {kModel, {"tokenize", text, "--out", Out(), "--tokenizer", path}},
      {kModel, {"tokenizer", "encode", tmp_.Path("texts.jsonl"), "--tokenizer", path}},
      {kModel, {"tokenizer", "decode", tmp_.Path("ids.jsonl"), "--tokenizer", path}},
      {kModel, {"template", "render", tmp_.Path("chats.jsonl"), "--checkpoint", path}},
      {kModel, labml(config, weights, {"--tokenizer", path})},
      {kWeights, labml(config, path, {})},
      {kWeights, {"score", "--checkpoint", Model(), "--tokens", path, "--out", Out()}},
      {kJson, {"fit", "--config", path, "--out", Out()}},
      {kJson, labml(path, weights, {})},
      {kJson, labml(config, weights, {"--tokenizer-config", path})},
      {kText, {"fit", "--config", toml, "--out", Out(), "--set", "data.text=" + path}},
      {kText, {"eval", "--checkpoint", Model(), "--text", path}},
      {kText, {"tokenize", path, "--out", Out()}},
      {kAlphabet, {"tokenizer", "train", path, "--vocab", "300", "--out", Out()}},
      {kAlphabet, labml(config, weights, {"--chars", path})},
      {kAlphabet, labml(config, weights, {"--alphabet", path})},
  };
  for (const auto& [kind, begin] : FilesOfKinds()) {
    const bool page = kind == FileKind::kWebPage || kind == FileKind::kHubMessage;
    const bool pointer = kind == FileKind::kLfsPointer;
    // What follows is no text, as a rule.
    tmp_.Put("some.file", page || pointer ? begin : begin + "\xff\xff");
    for (const Reader& reader : readers) {
      const bool taken = (reader.wants == kModel && kind == FileKind::kGguf) ||
                         (reader.wants == kWeights && kind == FileKind::kSafetensors) ||
                         // A page is a text like any other.
                         (reader.wants >= kText && page) ||
                         (reader.wants == kText && kind == FileKind::kTokenFile) ||
                         (reader.wants == kAlphabet && pointer);
      if (taken) continue;
      fs::remove_all(Out());
      const Ran ran = RunTool(reader.arguments);
      const std::string what = StrJoin(reader.arguments, " ");
      EXPECT_NE(ran.code, 0) << what;
      // A usage error is followed by where the right usage is described.
      const std::string error = ran.err.substr(0, ran.err.find("see mnemon-train "));
      EXPECT_THAT(error, AllOf(HasSubstr("some.file'"),
                               HasSubstr(StrCat(" is ", Describe(kind)))))
          << what;
      EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
      EXPECT_FALSE(fs::exists(tmp_.Path("out/config.json"))) << what;
    }
  }
}

TEST_F(WrongKindTest, TokenizersAndTemplatesAreTakenOfModels) {
  ASSERT_EQ(
      RunTool({"import", "--from", "gguf", kGguf, "--out", tmp_.Path("dir")}).code, 0);
  // The same as the hub's cache has it.
  const fs::path hub = tmp_.Path("models--a--b");
  for (const char* folder : {"blobs", "refs", "snapshots/r1"}) {
    fs::create_directories(hub / folder);
  }
  tmp_.Put("models--a--b/refs/main", "r1");
  for (const auto& entry : fs::directory_iterator(tmp_.Path("dir"))) {
    const std::string name = entry.path().filename();
    fs::copy(entry.path(), hub / "blobs" / name);
    fs::create_symlink("../../blobs/" + name, hub / "snapshots/r1" / name);
  }
  const auto same = [&](const Arguments& before, const char* flag) {
    std::string first;
    for (const std::string& path : {std::string(kGguf), tmp_.Path("dir"), hub.string(),
                                    (hub / "snapshots/r1").string()}) {
      Arguments arguments = before;
      arguments.insert(arguments.end(), {flag, path});
      const Ran ran = RunTool(arguments);
      EXPECT_EQ(ran.code, 0) << ran.err;
      EXPECT_NE(ran.out, "");
      if (first.empty()) first = ran.out;
      EXPECT_EQ(ran.out, first) << path;
    }
    return first;
  };
  const std::string ids =
      same({"tokenizer", "encode", tmp_.Path("texts.jsonl")}, "--tokenizer");
  EXPECT_EQ(ids,
            same({"tokenizer", "encode", tmp_.Path("texts.jsonl")}, "--checkpoint"));
  EXPECT_EQ(RunTool({"tokenizer", "encode", tmp_.Path("texts.jsonl"), "--tokenizer",
                     tmp_.Path("dir/tokenizer.json")})
                .out,
            ids);
  same({"tokenizer", "decode", tmp_.Path("ids.jsonl")}, "--tokenizer");
  EXPECT_EQ(same({"template", "render", tmp_.Path("chats.jsonl")}, "--checkpoint"),
            "\"M\"\n");
  const Ran none =
      RunTool({"template", "render", tmp_.Path("chats.jsonl"), "--checkpoint",
               MNEMON_SOURCE_DIR "/tests/model/io/data/gguf/gpt2.gguf"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("gpt2.gguf"), HasSubstr("no chat template")));
}

TEST_F(WrongKindTest, ADirectoryWithoutTokenizerJsonTellsWhichItHas) {
  fs::create_directory(tmp_.Path("dir"));
  const auto fault = [&] {
    const Ran ran = RunTool({"tokenizer", "encode", tmp_.Path("texts.jsonl"),
                             "--tokenizer", tmp_.Path("dir")});
    EXPECT_EQ(ran.code, 1);
    return ran.err;
  };
  EXPECT_THAT(fault(), HasSubstr("config.json"));
  tmp_.Put("dir/vocab.json", "{}");
  tmp_.Put("dir/merges.txt", "");
  EXPECT_THAT(fault(), HasSubstr("has no tokenizer.json but 'merges.txt', "
                                 "'vocab.json': make one of it"));
  fs::copy(MNEMON_SOURCE_DIR "/tests/golden/data/hf/qwen3/config.json",
           tmp_.Path("dir/config.json"));
  EXPECT_THAT(fault(), HasSubstr("has no tokenizer.json but 'merges.txt'"));
  fs::remove(tmp_.Path("dir/vocab.json"));
  fs::remove(tmp_.Path("dir/merges.txt"));
  EXPECT_THAT(fault(), HasSubstr("has no tokenizer"));
  const Ran vocabulary = RunTool({"tokenizer", "encode", tmp_.Path("texts.jsonl")});
  EXPECT_EQ(vocabulary.code, 2);
  EXPECT_THAT(vocabulary.err,
              AllOf(HasSubstr("--tokenizer is required: give --tokenizer or set "
                              "MNEMON_TRAIN_TOKENIZER\n"),
                    Not(HasSubstr("CHECKPOINT"))));
}

}  // namespace
}  // namespace mnemon
