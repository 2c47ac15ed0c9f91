// SPDX-License-Identifier: MIT
// Tokenizers and chat templates that `mnemon-train import` puts into a checkpoint.
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/io/checkpoint.h"
#include "model/text/tokenizer.h"
#include "tests/model/io/temporary_directory.h"
#include "tests/train/commands/run_tool.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ImportTokenizerTest : public testing::Test {
 protected:
  // Imports a reference model.
  static Ran Import(const std::string& name, std::vector<std::string> more,
                    const std::string& out) {
    const std::string golden = StrCat(MNEMON_SOURCE_DIR, "/tests/golden/data/", name);
    std::vector<std::string> arguments = {"import",
                                          "--from",
                                          "labml",
                                          "--config",
                                          golden + "/config.json",
                                          "--weights",
                                          golden + "/weights.safetensors",
                                          "--out",
                                          out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }

  TemporaryDirectory tmp_;
};

TEST_F(ImportTokenizerTest, AttachesIt) {
  // 17 characters for 17 tokens; sorted: newline, a-o, e with acute.
  tmp_.Put("text.txt", "lmnoabcdefg\r\nhijk\xc3\xa9\ra\r");
  tmp_.Put("alphabet.txt", "onmlkjihgfedcba\n\xc3\xa9");
  tmp_.Put("tokenizer.json",
           MakeCharTokenizer("abcdefghijklmno\xc3\xa9\n").value()->ToJson());
  const auto sample = [&](const std::string& dir, std::vector<std::string> prompt) {
    std::vector<std::string> arguments = {"sample",   "--checkpoint", dir,      "--ids",
                                          "--tokens", "12",           "--seed", "3"};
    arguments.insert(arguments.end(), prompt.begin(), prompt.end());
    const Ran ran = RunTool(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.out;
  };
  struct Case {
    const char* flag;
    const char* file;
    const char* ids;  // of "no\n\u00e9"
  };
  for (const Case& c : {Case{"--chars", "text.txt", "14,15,0,16"},
                        Case{"--alphabet", "alphabet.txt", "1,0,15,16"},
                        Case{"--tokenizer", "tokenizer.json", "14,15,0,16"}}) {
    const std::string dir = tmp_.Path("model");
    const Ran ran = Import("fast_weights_nu1", {c.flag, tmp_.Path(c.file)}, dir);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(sample(dir, {"--prompt", "no\n\xc3\xa9"}),
              sample(dir, {"--prompt-tokens", c.ids}))
        << c.flag;
  }
}

TEST_F(ImportTokenizerTest, NamesAWrongOne) {
  const auto import = [&](std::vector<std::string> more) {
    Ran ran = Import("xl_single", std::move(more), tmp_.Path("new"));
    EXPECT_FALSE(fs::exists(tmp_.Path("new")));
    return ran;
  };
  tmp_.Put("file", "abcdef");
  const std::string file = tmp_.Path("file");
  for (const char* flag : {"--chars", "--alphabet"}) {
    const Ran ran = import({flag, file});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err,
                AllOf(HasSubstr(flag), HasSubstr(file), HasSubstr("has 6 tokens"),
                      HasSubstr("vocab of 17"), HasSubstr("6 characters: a-f")));
  }
  Ran ran = import({"--tokenizer", file});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--tokenizer"), HasSubstr("tokenizer.json")));
  ran = import({"--chars", tmp_.Path("absent")});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("absent"));
  tmp_.Put("file", "abc\xff");
  ran = import({"--chars", file});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--chars"), HasSubstr("UTF-8 at byte 3")));
  for (const char* other : {"--alphabet", "--tokenizer"}) {
    ran = import({"--chars", file, other, file});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, AllOf(HasSubstr("--chars"), HasSubstr(other)));
  }
}

TEST_F(ImportTokenizerTest, AttachesAChatTemplate) {
  const std::string text = R"({"chat_template": {"answer": "A: "}})";
  tmp_.Put("chat.json", text);
  const std::string dir = tmp_.Path("model");
  Ran ran = Import("xl_single", {"--tokenizer-config", tmp_.Path("chat.json")}, dir);
  EXPECT_EQ(ran.code, 0) << ran.err;
  auto files = ReadCheckpoint(dir);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->tokenizer_config_json, text);
  // May also be added by hand if the manifest does not list it; a listed one must
  // match.
  tmp_.Put("model/tokenizer_config.json", "{}");
  EXPECT_EQ(ReadCheckpoint(dir).status().code(), absl::StatusCode::kDataLoss);
  const std::string bare = tmp_.Path("bare");
  ASSERT_EQ(Import("xl_single", {}, bare).code, 0);
  tmp_.Put("bare/tokenizer_config.json", text);
  files = ReadCheckpoint(bare);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->tokenizer_config_json, text);

  tmp_.Put("chat.json", R"({"chat_template": {"user": "no place"}})");
  ran = Import("xl_single", {"--tokenizer-config", tmp_.Path("chat.json")},
               tmp_.Path("other"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--tokenizer-config"), HasSubstr("chat.json"),
                             HasSubstr("chat_template.user")));
}

}  // namespace
}  // namespace mnemon
