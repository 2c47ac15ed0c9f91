// SPDX-License-Identifier: MIT
#include "train/report/attention_picture.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(AttentionPicture, DrawsEveryHeadOfEveryLayerAndTheirMean) {
  const std::vector<int32_t> tokens = {7, 42, 9};
  // Head 1 looks at itself, head 2 at the last.
  const UnsetFloats map = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1};
  const std::vector<UnsetFloats> maps = {map, map};
  const std::string svg =
      DrawAttention({.tokens = tokens, .heads = 2, .maps = maps, .title = "Weights"});
  EXPECT_THAT(svg, HasSubstr("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr(">Weights</text>"));
  EXPECT_THAT(svg, HasSubstr("layer 2, head 2"));
  EXPECT_THAT(svg, Not(HasSubstr("layer 3")));
  EXPECT_EQ(Count(svg, "mean of the heads"), 2);
  EXPECT_EQ(Count(svg, ">42</text>"), 2 * 6);
  // x is the key, y the query.
  EXPECT_EQ(Count(svg, "d=\"M0 0h1v1h-1zM1 1h1v1h-1zM2 2h1v1h-1z\""), 2);
  EXPECT_EQ(Count(svg, "d=\"M2 0h1v1h-1zM2 1h1v1h-1zM2 2h1v1h-1z\""), 2);
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

TEST(AttentionPicture, OneHeadNeedsNoMeanAndManyTokensNoLabels) {
  const std::vector<int32_t> tokens(40, 5);
  const std::vector<UnsetFloats> maps = {UnsetFloats(1600, 0.025f)};
  const std::string svg = DrawAttention({.tokens = tokens, .heads = 1, .maps = maps});
  EXPECT_THAT(svg, Not(HasSubstr("mean")));
  EXPECT_THAT(svg, Not(HasSubstr(">5</text>")));
}

}  // namespace
}  // namespace mnemon
