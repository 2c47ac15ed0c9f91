// SPDX-License-Identifier: MIT
#include "train/data/text_stream.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "train/data/text_survey.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class TextStreamTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  TextStream Open(const std::vector<std::string>& contents) {
    std::vector<std::string> paths;
    for (const std::string& content : contents) {
      paths.push_back(root_ / ("text" + std::to_string(paths.size())));
      std::ofstream(paths.back(), std::ios::binary) << content;
    }
    auto text = TextStream::Open(paths);
    EXPECT_TRUE(text.ok()) << text.status();
    return *std::move(text);
  }

  const fs::path root_ =
      fs::path(testing::TempDir()) /
      ("text_stream_" + std::to_string(getpid()) + "_" +
       testing::UnitTest::GetInstance()->current_test_info()->name());
};

// Characters of 1 to 4 bytes.
std::string Mixed(int characters) {
  std::mt19937 random(3);
  const char32_t kinds[] = {'a', 0xe9, 0x20ac, 0x1f600};
  std::string text;
  for (int i = 0; i < characters; ++i) AppendUtf8(kinds[random() % 4], text);
  return text;
}

TEST_F(TextStreamTest, BlocksAreTheTextAndEndBetweenCharacters) {
  const std::string all = Mixed(300);
  // The first file ends within a character.
  size_t cut = 200;
  while ((all[cut] & 0xC0) != 0x80) ++cut;
  const TextStream text = Open({all.substr(0, cut), "", all.substr(cut)});
  ASSERT_EQ(text.size(), static_cast<int64_t>(all.size()));
  for (const int64_t bytes : {8, 9, 10, 11, 64, 10000}) {
    for (const int64_t count : {1, 3}) {
      TextBlocks blocks(text, bytes, count);
      std::string joined;
      for (;;) {
        const auto round = blocks.Next();
        ASSERT_TRUE(round.ok()) << round.status();
        if (round->empty()) break;
        EXPECT_LE(static_cast<int64_t>(round->size()), count + 1);
        const char* next = round->front().bytes.data();
        for (const TextBlock& block : *round) {
          EXPECT_EQ(block.begin, static_cast<int64_t>(joined.size()));
          EXPECT_EQ(block.bytes.data(), next);
          next += block.bytes.size();
          EXPECT_LE(static_cast<int64_t>(block.bytes.size()), bytes + 3);
          EXPECT_TRUE(IsValidUtf8(block.bytes));
          joined += block.bytes;
        }
      }
      EXPECT_EQ(joined, all) << bytes;
    }
  }
}

// The first fault is where one reading of all finds it, wherever blocks end.
TEST_F(TextStreamTest, FaultsStayWhereTheyAre) {
  for (const std::string fault :
       {"\x80", "\x80\x80\x80\x80\x80\x80", "\xf0\x9f", "\xf0\x9f\x98", "\xff",
        "\xf0\x9f\x98\x80\x80\x80\x80", "\xed\xa0\x80", "\xc0\xaf"}) {
    for (size_t at = 0; at < 20; ++at) {
      const std::string all = std::string(at, 'x') + fault + "and more of the text";
      size_t first = 0;
      char32_t character;
      while (NextCodePoint(all, first, character)) {
      }
      const TextStream text = Open({all});
      for (const int64_t bytes : {8, 9, 11}) {
        TextBlocks blocks(text, bytes, 2);
        int64_t found = -1;
        while (found < 0) {
          const auto round = blocks.Next();
          ASSERT_TRUE(round.ok() && !round->empty());
          for (const TextBlock& block : *round) {
            TextSurvey survey;
            const auto wrong = survey.Add(block.bytes);
            if (wrong && found < 0) found = block.begin + *wrong;
          }
        }
        EXPECT_EQ(found, static_cast<int64_t>(first)) << at << " " << bytes;
      }
    }
  }
}

TEST_F(TextStreamTest, NamesFilesAndPlaces) {
  const TextStream text = Open({"abc", "", "defg"});
  EXPECT_THAT(text.PlaceOf(2), HasSubstr("text0' at byte 2"));
  EXPECT_THAT(text.PlaceOf(3), HasSubstr("text2' at byte 0"));
  EXPECT_THAT(text.PlaceOf(7), HasSubstr("text2' at byte 4"));
  EXPECT_TRUE(text.CheckUnchanged().ok());
  std::ofstream(root_ / "text2", std::ios::app) << "more";
  EXPECT_THAT(std::string(text.CheckUnchanged().message()),
              HasSubstr("text2' changed"));
  EXPECT_THAT(std::string(TextStream::Open({root_ / "text1"}).status().message()),
              HasSubstr("an empty text"));
  EXPECT_EQ(TextStream::Open({root_ / "none"}).status().code(),
            absl::StatusCode::kNotFound);
  fs::resize_file(root_ / "text2", 2);
  TextBlocks blocks(text, 8, 1);
  EXPECT_EQ(blocks.Next().status().code(), absl::StatusCode::kDataLoss);
}

TEST(TextSurvey, IsTheSameInAnyParts) {
  const std::string text = Mixed(100) + "zz";
  TextSurvey whole, first, second;
  EXPECT_FALSE(whole.Add(text));
  size_t cut = 50;
  while ((text[cut] & 0xC0) == 0x80) ++cut;
  EXPECT_FALSE(first.Add(text.substr(cut)));
  EXPECT_FALSE(second.Add(text.substr(0, cut)));
  first.Add(second);
  EXPECT_EQ(whole.characters(), 102);
  EXPECT_EQ(first.characters(), 102);
  EXPECT_EQ(whole.Alphabet(), (std::vector<char32_t>{'a', 'z', 0xe9, 0x20ac, 0x1f600}));
  EXPECT_EQ(first.Alphabet(), whole.Alphabet());
}

}  // namespace
}  // namespace mnemon
