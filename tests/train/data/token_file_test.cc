// SPDX-License-Identifier: MIT
#include "train/data/token_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/data/text_task.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TokenFileTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  std::string Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return path_;
  }
  std::string Fault(const std::string& bytes) {
    const auto file = TokenFile::Open(Write(bytes));
    EXPECT_FALSE(file.ok());
    const std::string message(file.status().message());
    EXPECT_THAT(message, HasSubstr("'" + path_ + "': "));
    return message;
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) /
      ("token_file_" + std::to_string(getpid()) + "_" +
       testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = root_ / "a.tokens";
};

std::string SomeHeader(int64_t count, TokenWidth width = TokenWidth::kOne) {
  TokenFileHeader header;
  header.width = width;
  header.count = count;
  header.sha256 = Sha256Hex("abca");
  header.tokenizer = *MakeCharTokenizer("abc");
  return FormatTokenFileHeader(header);
}

// A header whose checksum is right, whatever else is wrong with it.
std::string Forged(size_t at, const std::string& bytes) {
  std::string header = SomeHeader(4);
  header.replace(at, bytes.size(), bytes);
  const std::string digest = Sha256Hex(header.substr(0, 64) + header.substr(96));
  for (size_t i = 0; i < 32; ++i) {
    header[64 + i] = static_cast<char>(std::stoi(digest.substr(2 * i, 2), nullptr, 16));
  }
  return header + std::string("\0\1\2\0", 4);
}

TEST_F(TokenFileTest, HoldsTokensAndTokenizer) {
  const std::string header = SomeHeader(4);
  EXPECT_EQ(header.size() % 64, 0u);
  const auto file = TokenFile::Open(Write(header + std::string("\0\1\2\0", 4)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tokenizer().ToJson(), (*MakeCharTokenizer("abc"))->ToJson());
  EXPECT_EQ((*file)->sha256(), Sha256Hex("abca"));
  std::vector<int64_t> tokens;
  ASSERT_TRUE((*file)->tokens().Append(0, 4, tokens).ok());
  EXPECT_THAT(tokens, testing::ElementsAre(0, 1, 2, 0));
  EXPECT_TRUE(IsTokenFile(path_));
  fs::create_symlink(path_, root_ / "link");
  EXPECT_TRUE(IsTokenFile(root_ / "link"));
  EXPECT_TRUE(TokenFile::Open(root_ / "link").ok());
}

// Held against drift: files of older programs must stay readable.
TEST_F(TokenFileTest, TheFormatStaysWhatItIs) {
  const std::string header = SomeHeader(4);
  EXPECT_EQ(header.substr(0, 32),
            std::string("\x93MNTOK\r\n\1\0\0\0\1\0\0\0\4\0\0\0\0\0\0\0\3\0\0\0", 28) +
                header.substr(28, 4));
  EXPECT_EQ(Sha256Hex(header),
            "477fc7bfb3ba93f16381d14f5671d94c259bd5a98c140d280697f72541a662b0");
}

TEST_F(TokenFileTest, EveryFlippedByteOfTheHeaderIsFound) {
  const std::string whole = SomeHeader(4) + std::string("\0\1\2\0", 4);
  for (size_t i = 0; i + 4 < whole.size(); ++i) {
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      EXPECT_FALSE(TokenFile::Open(Write(damaged)).ok()) << i;
    }
  }
}

TEST_F(TokenFileTest, EveryTruncationAndGrowthIsFound) {
  const std::string whole = SomeHeader(4) + std::string("\0\1\2\0", 4);
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string fault = Fault(whole.substr(0, size));
    if (size >= kTokenFileMagic.size()) {
      EXPECT_THAT(fault, HasSubstr("cut short")) << size;
    }
  }
  EXPECT_THAT(Fault(whole + "x"),
              HasSubstr("it was added to: its header announces 4 "
                        "tokens of 1 bytes, the file has 5 bytes of tokens"));
}

TEST_F(TokenFileTest, FaultsAreNamed) {
  EXPECT_THAT(Fault("a text of some length"), HasSubstr("does not begin like"));
  EXPECT_FALSE(IsTokenFile(path_));
  EXPECT_THAT(Fault(Forged(8, std::string("\2\0\0\0", 4))),
              HasSubstr("it has version 2 of the format, this program reads 1"));
  std::string damaged = SomeHeader(0);
  damaged[100] ^= 1;
  EXPECT_THAT(Fault(damaged), HasSubstr("the checksum does not match"));
  EXPECT_EQ(TokenFile::Open(path_).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(TokenFile::Open(root_ / "none").status().message()),
              HasSubstr("none"));
  EXPECT_FALSE(TokenFile::Open(root_).ok());
  EXPECT_FALSE(IsTokenFile(root_ / "none"));
}

// Files that were made to mislead.
TEST_F(TokenFileTest, ForgedHeadersAreRefused) {
  ASSERT_TRUE(TokenFile::Open(Write(Forged(0, ""))).ok());
  EXPECT_THAT(Fault(Forged(12, std::string("\3\0\0\0", 4))),
              HasSubstr("its tokens have 3 bytes each, not 1, 2 or 4"));
  EXPECT_THAT(Fault(Forged(12, std::string("\0\0\0\0", 4))), HasSubstr("0 bytes each"));
  EXPECT_THAT(Fault(Forged(24, std::string("\xff\xff\xff\xff", 4))),
              HasSubstr("its vocabulary has 4294967295 tokens and its tokenizer 3"));
  EXPECT_THAT(Fault(Forged(28, std::string("\xff\xff\xff\xff", 4))),
              HasSubstr("damaged"));
  // count * width wraps to 4.
  std::string wraps = Forged(12, std::string("\4\0\0\0\1\0\0\0\0\0\0\x40", 12));
  EXPECT_THAT(Fault(wraps),
              HasSubstr("its header announces 4611686018427387905 tokens"));
  EXPECT_THAT(Fault(Forged(16, std::string(8, '\xff'))), HasSubstr("cut short"));
  EXPECT_THAT(Fault(Forged(97, "x")), HasSubstr("tokenizer.json"));
}

TEST_F(TokenFileTest, ATaskNamesWhatIsNoToken) {
  DataOptions options;
  options.text =
      Write(SomeHeader(40) + std::string(30, '\1') + "\3" + std::string(9, '\2'));
  options.validation = 0.5;
  options.seq_len = 4;
  options.batch = 5;
  const auto task = LoadTextTask(options);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->sha256(), Sha256Hex("abca"));
  auto training = *(*task)->MakeLoader(options, LoaderUse::kTraining, 1);
  EXPECT_TRUE(training->Next().ok());
  auto validation = *(*task)->MakeLoader(options, LoaderUse::kValidation, 1);
  const auto batch = validation->Next();
  EXPECT_EQ(batch.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(batch.status().message()),
              HasSubstr("'" + path_ + "' is damaged: token 30 is 3"));
  EXPECT_EQ(validation->cursor().batch, 0);
}

TEST_F(TokenFileTest, TheTokenizerOfTheConfigurationMustBeOfItsKind) {
  DataOptions options;
  options.text = Write(SomeHeader(40) + std::string(40, '\1'));
  options.tokenizer = "byte";
  EXPECT_THAT(std::string(LoadTextTask(options).status().message()),
              HasSubstr("data.tokenizer is byte, and the tokens of '" + path_ +
                        "' are of char: set data.tokenizer = char"));
  std::ofstream(path_, std::ios::binary | std::ios::app) << "x";
  options.tokenizer = "char";
  EXPECT_THAT(std::string(LoadTextTask(options).status().message()),
              HasSubstr("data.text: '" + path_ + "': it was added to"));
  EXPECT_THAT(std::string(ReadText(path_).status().message()),
              HasSubstr("is a token file; a text is needed"));
}

}  // namespace
}  // namespace mnemon
