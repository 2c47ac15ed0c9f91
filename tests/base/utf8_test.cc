// SPDX-License-Identifier: MIT
#include "base/utf8.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

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

TEST(Utf8, TheValidPrefixEndsWhereItStands) {
  for (size_t at = 0; at < 20; ++at) {
    for (const char* text : {"\xff", "\xe2\x82", "\xc3("}) {
      const std::string before(at, 'a'), after(20, 'b');
      EXPECT_EQ(ValidUtf8Prefix(before + text), at) << text;
      EXPECT_EQ(ValidUtf8Prefix(before + "\u00e9" + before + text + after), 2 * at + 2);
    }
    const std::string valid =
        std::string(at, 'a') + "\U0001f600" + std::string(at, 'b');
    EXPECT_EQ(ValidUtf8Prefix(valid), valid.size());
  }
}

}  // namespace
}  // namespace mnemon
