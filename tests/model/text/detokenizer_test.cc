// SPDX-License-Identifier: MIT
#include "model/text/detokenizer.h"

#include "base/utf8.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";

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
