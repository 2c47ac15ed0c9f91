// SPDX-License-Identifier: MIT
#include "train/data/tokenize.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "base/sha256.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/text/bpe_trainer.h"
#include "model/text/char_tokenizer.h"
#include "train/data/text_task.h"
#include "train/data/token_file.h"

namespace mnemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Content(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// Characters of 1 to 4 bytes, of `kinds` kinds.
std::string Mixed(int characters, int kinds) {
  std::mt19937 random(3);
  std::string text;
  for (int i = 0; i < characters; ++i) {
    const char32_t kind = random() % kinds;
    // No surrogates.
    AppendUtf8(kind < 60 ? 'A' + kind : kind * 31 + (kind > 1700 ? 0x2000 : 0), text);
  }
  return text;
}

class TokenizeTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& content) {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return root_ / name;
  }
  TokenizeOptions Options(const std::vector<std::string>& texts) {
    return {.texts = texts, .out = out_};
  }
  std::shared_ptr<const TokenFile> Made(const TokenizeOptions& options) {
    const auto made = TokenizeTexts(options);
    EXPECT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->file_bytes, static_cast<int64_t>(fs::file_size(out_)));
    const auto file = TokenFile::Open(out_);
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(made->tokens, (*file)->tokens().size());
    return *file;
  }
  std::string Fault(const TokenizeOptions& options) {
    const auto made = TokenizeTexts(options);
    EXPECT_FALSE(made.ok());
    // Nothing is left behind.
    EXPECT_FALSE(fs::exists(out_));
    for (const auto& entry : fs::directory_iterator(root_)) {
      EXPECT_NE(entry.path().filename().string()[0], '.') << entry;
    }
    return std::string(made.status().message());
  }
  static std::vector<int32_t> Tokens(const TokenFile& file) {
    std::vector<int64_t> tokens;
    EXPECT_TRUE(file.tokens().Append(0, file.tokens().size(), tokens).ok());
    return {tokens.begin(), tokens.end()};
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) /
      ("tokenize_" + std::to_string(getpid()) + "_" +
       testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string out_ = root_ / "out.tokens";
};

TEST_F(TokenizeTest, IsWhatTheTokenizersOfTextsGive) {
  for (const int kinds : {20, 1000, 30000}) {
    const std::string text = Mixed(200000, kinds);
    const auto file = Made(Options({Write("a.txt", text)}));
    const auto tokenizer = *MakeCharTokenizer(text);
    EXPECT_EQ(file->tokenizer().ToJson(), tokenizer->ToJson());
    EXPECT_EQ(Tokens(*file), *tokenizer->Encode(text));
    EXPECT_EQ(file->sha256(), Sha256Hex(text));
  }
  const std::string bytes = "any\xff\x80 bytes" + std::string(1, '\0');
  TokenizeOptions options = Options({Write("b.txt", bytes)});
  options.tokenizer = "byte";
  const auto file = Made(options);
  EXPECT_EQ(Tokens(*file), *MakeByteTokenizer()->Encode(bytes));
  EXPECT_EQ(file->sha256(), Sha256Hex(bytes));
}

TEST_F(TokenizeTest, TheSameBytesWithAnyThreadsAndBlocks) {
  const std::string text = Mixed(5000, 300);
  // The first file ends within a character.
  size_t cut = 777;
  while ((text[cut] & 0xC0) != 0x80) ++cut;
  TokenizeOptions options = Options({Write("whole.txt", text)});
  Made(options);
  const std::string expected = Content(out_);
  options.texts = {Write("a.txt", text.substr(0, cut)),
                   Write("b.txt", text.substr(cut))};
  for (const int threads : {1, 2, 5}) {
    for (const int64_t block : {8, 13, 1000}) {
      options.threads = threads;
      options.block_bytes = block;
      Made(options);
      EXPECT_EQ(Content(out_), expected) << threads << " " << block;
    }
  }
}

TEST_F(TokenizeTest, TakesTheTokenizerOfAModel) {
  const std::string json = (*MakeCharTokenizer("abcdef"))->ToJson();
  TokenizeOptions options = Options({Write("a.txt", "fade")});
  options.tokenizer = Write("tokenizer.json", json);
  const auto file = Made(options);
  EXPECT_THAT(Tokens(*file), ElementsAre(5, 0, 3, 4));
  // Not the content of the text with characters of its own.
  EXPECT_EQ(file->sha256(), Sha256Hex("fade" + json));
  options.texts = {Write("a.txt", "feedbaced")};
  EXPECT_EQ(Made(options)->sha256(), Sha256Hex("feedbaced"));
}

TEST_F(TokenizeTest, UnknownCharactersAreLeftOutOrReplaced) {
  const std::string json = (*MakeCharTokenizer("abc?"))->ToJson();
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += i % 7 == 0 ? "\xe2\x82\xac" : i % 5 == 0 ? "X" : "abc";
  TokenizeOptions options = Options({Write("a.txt", text)});
  options.tokenizer = Write("tokenizer.json", json);
  options.block_bytes = 100;
  EXPECT_THAT(Fault(options), HasSubstr("a.txt' at byte 0 has a character"));
  const auto tokenizer = *ParseTokenizer(json);
  std::set<std::string> contents;
  std::string skipped;
  for (const auto unknown : {UnknownCharacters::kSkip, UnknownCharacters::kReplace}) {
    options.unknown = unknown;
    options.threads = 3;
    const auto file = Made(options);
    EXPECT_EQ(Tokens(*file), *tokenizer->EncodeWith(text, unknown));
    // The tokenizer is the one that was given.
    EXPECT_EQ(file->tokenizer().ToJson(), json);
    contents.insert(file->sha256());
    if (unknown == UnknownCharacters::kSkip) skipped = Content(out_);
  }
  EXPECT_EQ(contents.size(), 2u);
  // The tokenizer's own way is taken where none is given.
  options.unknown = UnknownCharacters::kSkip;
  options.threads = 1;
  options.block_bytes = 1000;
  Made(options);
  EXPECT_EQ(Content(out_), skipped);
  options.unknown = UnknownCharacters::kAsModel;
  const auto skipping = WithUnknownCharacters(*tokenizer, UnknownCharacters::kSkip);
  options.tokenizer = Write("tokenizer.json", skipping->ToJson());
  EXPECT_EQ(Tokens(*Made(options)), *skipping->Encode(text));
  options.texts = {Write("a.txt", "XYZ")};
  fs::remove(out_);
  EXPECT_THAT(Fault(options), HasSubstr("knows no character of the texts"));
}

TEST_F(TokenizeTest, ARunSavesWhatItsConfigurationSays) {
  const std::string json = (*MakeCharTokenizer("abc?"))->ToJson();
  DataOptions data{.text = Write("a.txt", "abcXabcabcXabc")};
  const auto loaded = [&] {
    auto task = LoadTextTask(data);
    EXPECT_TRUE(task.ok()) << task.status();
    return *std::move(task);
  };
  EXPECT_EQ(loaded()->tokenizer()->unknown_characters(), UnknownCharacters::kRefuse);
  const std::string sha256 = loaded()->sha256();
  data.unknown_characters = UnknownCharacters::kReplace;
  EXPECT_EQ(loaded()->tokenizer()->unknown_characters(), UnknownCharacters::kReplace);
  // The hash of the text alone is the same.
  EXPECT_EQ(loaded()->sha256(), sha256);
  EXPECT_EQ(loaded()->vocab(), 4);
  // A tokenizer that lacks some characters of the training and of the validation text.
  data.tokenizer = Write("tokenizer.json", json);
  EXPECT_EQ(*loaded()->Prompt("Xa"), (std::vector<int32_t>{0, 1}));
  EXPECT_NE(loaded()->sha256(), sha256);
  data.unknown_characters = UnknownCharacters::kSkip;
  EXPECT_EQ(*loaded()->Prompt("Xa"), (std::vector<int32_t>{1}));
  EXPECT_THAT(std::string(loaded()->Prompt("X").status().message()),
              HasSubstr("sample.prompt: all of its characters are unknown"));
  data.unknown_characters = UnknownCharacters::kAsModel;
  EXPECT_THAT(std::string(LoadTextTask(data).status().message()),
              testing::AllOf(HasSubstr("data.text: "), HasSubstr("a.txt"),
                             HasSubstr("'X' (U+0058) at byte 3")));
  // The same for a token file.
  data.tokenizer = "char";
  Made(Options({data.text}));
  data.text = out_;
  EXPECT_EQ(loaded()->tokenizer()->unknown_characters(), UnknownCharacters::kRefuse);
  data.unknown_characters = UnknownCharacters::kSkip;
  EXPECT_EQ(loaded()->tokenizer()->unknown_characters(), UnknownCharacters::kSkip);
  EXPECT_EQ(loaded()->sha256(), sha256);
  data = {.text = Write("a.txt", "abcabcabc"), .tokenizer = "byte"};
  data.unknown_characters = UnknownCharacters::kSkip;
  EXPECT_THAT(std::string(LoadTextTask(data).status().message()),
              HasSubstr("data.unknown_characters = skip: the tokenizer knows every"));
}

TEST_F(TokenizeTest, TokensOfBytePairsComeOfTheWholeText) {
  const std::string text = Mixed(30000, 300);
  auto trainer = BpeTrainer::Create({}).value();
  ASSERT_TRUE(trainer.Add(text).ok());
  const std::string json = trainer.Train(600).value();
  const std::string tokenizer = Write("pairs.json", json);
  TokenizeOptions options = Options(
      {Write("a.txt", text.substr(0, 10001)), Write("b.txt", text.substr(10001))});
  options.tokenizer = tokenizer;
  options.threads = 2;
  options.block_bytes = 1000;
  const auto file = Made(options);
  EXPECT_EQ(Tokens(*file), *ParseTokenizer(json).value()->Encode(text));
  EXPECT_EQ(file->sha256(), Sha256Hex(text + json));

  // A run on the text has the same tokens.
  DataOptions data{.text = Write("whole.txt", text), .tokenizer = tokenizer};
  const auto of_text = LoadTextTask(data);
  ASSERT_TRUE(of_text.ok()) << of_text.status();
  data.text = out_;
  const auto of_file = LoadTextTask(data);
  ASSERT_TRUE(of_file.ok()) << of_file.status();
  EXPECT_EQ((*of_text)->vocab(), 600);
  EXPECT_EQ((*of_file)->vocab(), 600);
  data.tokenizer = "char";
  EXPECT_THAT(std::string(LoadTextTask(data).status().message()),
              HasSubstr("set data.tokenizer to the file"));
  data = {.text = root_ / "whole.txt", .tokenizer = root_ / "none.json"};
  EXPECT_THAT(std::string(LoadTextTask(data).status().message()),
              HasSubstr("none.json"));
  fs::remove(out_);
  options.texts = {Write("bad.txt", "ab\xff")};
  EXPECT_THAT(Fault(options), HasSubstr("bad.txt' at byte 2 is not UTF-8"));
}

TEST_F(TokenizeTest, FaultsAreNamedAndLeaveNothing) {
  const std::string good = Write("good.txt", std::string(100, 'a'));
  for (const int threads : {1, 3}) {
    TokenizeOptions options =
        Options({good, Write("bad.txt", std::string(50, 'b') + "\xff" + "c\xff")});
    options.threads = threads;
    options.block_bytes = 8;
    EXPECT_THAT(Fault(options), HasSubstr("bad.txt' at byte 50 is not UTF-8"));
    Write("known.json", (*MakeCharTokenizer("ab"))->ToJson());
    options.texts = {good, Write("other.txt", std::string(60, 'b') + "xby")};
    options.tokenizer = root_ / "known.json";
    EXPECT_THAT(Fault(options), HasSubstr("other.txt' at byte 60 has a character"));
  }
  EXPECT_THAT(Fault(Options({Write("empty.txt", "")})), HasSubstr("an empty text"));
  EXPECT_THAT(Fault(Options({root_ / "none.txt"})), HasSubstr("none.txt"));
  EXPECT_THAT(Fault(Options({root_})), HasSubstr("is a directory"));
  TokenizeOptions options = Options({good});
  options.tokenizer = "chars";
  EXPECT_THAT(Fault(options), HasSubstr("--tokenizer is char, byte, a tokenizer.json"));
  options.tokenizer = good;
  EXPECT_THAT(Fault(options), HasSubstr("good.txt"));
}

TEST_F(TokenizeTest, AFullDiskLeavesTheOldFile) {
  const std::string text = Write("a.txt", Mixed(100000, 50));
  ASSERT_TRUE(TokenizeTexts(Options({Write("b.txt", "old")})).ok());
  const std::string old = Content(out_);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit = {50000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const auto made = TokenizeTexts(Options({text}));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted)
      << made.status();
  EXPECT_EQ(Content(out_), old);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 3);
}

TEST_F(TokenizeTest, ATextThatChangesIsNamed) {
  TokenizeOptions options = Options({Write("a.txt", std::string(1000, 'a'))});
  const auto change = [&](const std::string& content) {
    options.progress = [this, content, changed = false](int64_t, int64_t) mutable {
      // Clocks of file systems are coarse.
      if (!changed) {
        const auto before = fs::last_write_time(root_ / "a.txt");
        fs::last_write_time(Write("a.txt", content), before + std::chrono::hours(1));
      }
      changed = true;
    };
    EXPECT_THAT(Fault(options), HasSubstr("a.txt' changed while it was read"));
    Write("a.txt", std::string(1000, 'a'));
  };
  change(std::string(1000, 'a'));
  change(std::string(1000, 'b'));
  change(std::string(2000, 'a'));
}

TEST_F(TokenizeTest, TellsProgress) {
  TokenizeOptions options = Options({Write("a.txt", std::string(1000, 'a'))});
  options.block_bytes = 100;
  std::vector<int64_t> told;
  options.progress = [&](int64_t done, int64_t bytes) {
    EXPECT_EQ(bytes, 2000);
    told.push_back(done);
  };
  Made(options);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_GT(told.size(), 4u);
  EXPECT_EQ(told.back(), 2000);
}

}  // namespace
}  // namespace mnemon
