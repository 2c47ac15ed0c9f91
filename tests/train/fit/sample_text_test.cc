// SPDX-License-Identifier: MIT
#include "train/fit/sample_text.h"

#include "gtest/gtest.h"

namespace mnemon {
namespace {

TEST(ShowSample, IndentsLinesAndTamesBytes) {
  EXPECT_EQ(ShowSample(""), "  | ");
  EXPECT_EQ(ShowSample("one\ntwo\n"), "  | one\n  | two\n  | ");
  EXPECT_EQ(ShowSample("a\x1b[2Jb"), "  | a\\x1b[2Jb");
  EXPECT_EQ(ShowSample("\xff\xc3"), "  | \xef\xbf\xbd\xef\xbf\xbd");
}

}  // namespace
}  // namespace mnemon
