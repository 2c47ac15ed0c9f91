// SPDX-License-Identifier: MIT
#include "train/report/heat_map.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/report/well_formed.h"

namespace mnemon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(HeatMap, RowsAreQueriesAndNeighboursOfOneShadeAreOne) {
  const std::vector<float> weights = {0.5f, 0.5f, 0, 0, 0, 0.25f};
  const std::string svg = DrawHeatMap({.title = "Head <1>",
                                       .row_name = "query token",
                                       .column_name = "key token",
                                       .rows = {"a", "<"},
                                       .columns = {"x", "y", "z"},
                                       .weights = weights});
  EXPECT_EQ(MarkupFault(svg), "");
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"1.000\" d=\"M0 0h2v1h-2z\""));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"0.500\" d=\"M2 1h1v1h-1z\""));
  EXPECT_THAT(svg, HasSubstr("Shades from 0 to 0.5"));
  EXPECT_THAT(svg, HasSubstr(">&lt;</text>"));
  EXPECT_THAT(svg, HasSubstr("query token"));
}

TEST(HeatMap, NothingIsWhiteAndManyLabelsAreFew) {
  const std::vector<float> weights(100 * 100);
  const std::vector<std::string> labels(100, "word");
  const std::string svg =
      DrawHeatMap({.rows = labels, .columns = labels, .weights = weights});
  EXPECT_EQ(MarkupFault(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<path")));
  size_t count = 0;
  for (size_t at = 0; (at = svg.find("wo\u2026", at)) != svg.npos; ++at) ++count;
  EXPECT_EQ(count, 2 * 34u);
}

TEST(HeatMap, WhatIsNoNumberIsNotDrawn) {
  const std::vector<float> weights = {NAN, 1.0f, -1.0f, HUGE_VALF};
  const std::vector<std::string> labels = {"a", "b"};
  const std::string svg =
      DrawHeatMap({.rows = labels, .columns = labels, .weights = weights});
  EXPECT_EQ(MarkupFault(svg), "");
}

TEST(HeatMap, WhiteSpaceHasSigns) {
  EXPECT_EQ(TokenLabel("\n"), "\u21b5");
  EXPECT_EQ(TokenLabel(" "), "\u00b7");
  EXPECT_EQ(TokenLabel("\t"), "\u21e5");
  EXPECT_EQ(TokenLabel("ab"), "ab");
}

}  // namespace
}  // namespace mnemon
