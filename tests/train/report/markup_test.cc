// SPDX-License-Identifier: MIT
#include "train/report/markup.h"

#include "gtest/gtest.h"
#include "tests/train/report/well_formed.h"

namespace mnemon {
namespace {

TEST(Markup, EscapesWhatHasAMeaning) {
  EXPECT_EQ(EscapeMarkup("<a href=\"x\">&amp;'"),
            "&lt;a href=&quot;x&quot;&gt;&amp;amp;'");
  EXPECT_EQ(EscapeMarkup("a\n\tb"), "a\n\tb");
  EXPECT_EQ(EscapeMarkup("gr\u00fc\u00df"), "gr\u00fc\u00df");
}

TEST(Markup, ReplacesWhatIsNoText) {
  EXPECT_EQ(EscapeMarkup("a\x1b[1m\rb"), "a\uFFFD[1m\uFFFDb");
  EXPECT_EQ(EscapeMarkup(std::string_view("\0", 1)), "\uFFFD");
  EXPECT_EQ(EscapeMarkup("a\xff z \xe2\x82"), "a\uFFFD z \uFFFD");
  EXPECT_EQ(EscapeMarkup("\xc2\x9b"), "\uFFFD") << "a control character of Latin-1";
  EXPECT_EQ(EscapeMarkup("\xef\xbf\xbf"), "\uFFFD") << "U+FFFF is not in XML";
}

TEST(Markup, ShortensByCharacters) {
  EXPECT_EQ(Shortened("abcd", 4), "abcd");
  EXPECT_EQ(Shortened("abcde", 4), "abc\u2026");
  EXPECT_EQ(Shortened("\u00e4\u00f6\u00fc\u00df\u00e4", 3), "\u00e4\u00f6\u2026");
  EXPECT_EQ(CountCharacters("\u00e4b\xff"), 3u);
}

TEST(MarkupFault, FindsFaults) {
  EXPECT_EQ(MarkupFault("<a b=\"c &lt;\">x<d/></a>"), "");
  EXPECT_EQ(MarkupFault("<!DOCTYPE html><p>x</p>"), "");
  for (const char* const text : {"<a>", "<a></b>", "<a b=c></a>", "<a>&x;</a>", "<a",
                                 "<a>\x01</a>", "<a>\xff</a>", "</a>", "a & b"}) {
    EXPECT_NE(MarkupFault(text), "") << text;
  }
}

}  // namespace
}  // namespace mnemon
