// SPDX-License-Identifier: MIT
#include "model/text/utf8.h"

#include "gtest/gtest.h"
#include "model/text/detokenizer.h"

namespace mnemon {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";

TEST(Utf8, EveryScalarValueComesBack) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string bytes;
    AppendUtf8(c, bytes);
    size_t offset = 0;
    char32_t read = 0;
    ASSERT_TRUE(NextCodePoint(bytes, offset, read)) << static_cast<uint32_t>(c);
    ASSERT_TRUE(read == c);
    ASSERT_EQ(offset, bytes.size());
  }
}

TEST(Utf8, IllFormedIsRefusedWhereItStands) {
  for (const char* text : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\x80",
                           "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xc3"}) {
    size_t offset = 0;
    char32_t read = 7;
    EXPECT_FALSE(NextCodePoint(text, offset, read)) << text;
    EXPECT_EQ(offset, 0u);
    EXPECT_FALSE(IsValidUtf8(std::string("a") + text));
  }
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8(std::string("a\0\xf0\x9f\x98\x80", 6)));
}

std::string All(Utf8Stream& stream, std::string_view bytes, size_t piece) {
  std::string text;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    text += stream.Push(bytes.substr(at, piece));
    EXPECT_TRUE(IsValidUtf8(text));
    EXPECT_LE(stream.tail().size(), 3u);
  }
  return text + stream.Finish();
}

TEST(Utf8Stream, ReplacesMaximalSubpartsInAnyCut) {
  const std::string r = kReplacement;
  // The first is table 3-8 of the Unicode standard, the rest tables 3-9 to 3-11.
  const std::pair<std::string, std::string> cases[] = {
      {"\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64",
       "a" + r + r + r + "b" + r + "c" + r + r + "d"},
      {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", r + r + r + r + "A"},
      {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
       "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"a\xf0\x9f\x98", "a" + r},
      {"\xe2\x82", r},
      {"", ""}};
  for (const auto& [bytes, text] : cases) {
    for (size_t piece = 1; piece <= bytes.size() + 1; ++piece) {
      Utf8Stream stream;
      EXPECT_EQ(All(stream, bytes, piece), text);
    }
  }
}

TEST(Utf8Stream, HoldsATailAndIsAValue) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("x\xe2\x82"), "x");
  EXPECT_EQ(stream.tail(), "\xe2\x82");
  Utf8Stream copy = stream;
  EXPECT_EQ(stream.Push("\xac"), "\xe2\x82\xac");
  EXPECT_EQ(copy.Finish(), kReplacement);
  EXPECT_EQ(copy.Finish(), "");
  EXPECT_EQ(stream.Finish(), "");
}

}  // namespace
}  // namespace mnemon
