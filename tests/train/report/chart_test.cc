// SPDX-License-Identifier: MIT
#include "train/report/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/report/well_formed.h"
#include "train/report/axis.h"
#include "train/report/svg_text.h"

namespace mnemon {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> TickTexts(const Axis& axis) {
  std::vector<std::string> texts;
  for (const double tick : axis.ticks()) texts.push_back(TickText(tick));
  return texts;
}

TEST(Axis, TicksAreRoundAndTheAxisReachesThem) {
  const Axis axis({1.13, 4.87}, false, true, 100, 0);
  EXPECT_THAT(TickTexts(axis), ElementsAre("1", "2", "3", "4", "5"));
  EXPECT_DOUBLE_EQ(axis.At(1), 100);
  EXPECT_DOUBLE_EQ(axis.At(5), 0);
  EXPECT_DOUBLE_EQ(axis.At(2), 75);
  EXPECT_THAT(TickTexts(Axis({-0.25, 0.25}, false, true, 0, 1)),
              ElementsAre("-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3"));
  const Axis exact({0, 2150}, false, false, 0, 215);
  EXPECT_THAT(TickTexts(exact), ElementsAre("0", "500", "1000", "1500", "2000"));
  EXPECT_DOUBLE_EQ(exact.At(2150), 215);
}

TEST(Axis, LogarithmicTicksArePowersOrParts) {
  EXPECT_THAT(TickTexts(Axis({3e-5, 0.8}, true, true, 0, 1)),
              ElementsAre("1e-5", "1e-4", "0.001", "0.01", "0.1", "1"));
  const Axis narrow({0.6, 3}, true, true, 0, 10);
  EXPECT_THAT(TickTexts(narrow), ElementsAre("0.5", "1", "2", "5"));
  EXPECT_THAT(narrow.At(std::sqrt(0.5 * 5)), DoubleNear(5, 1e-9));
  EXPECT_LE(TickTexts(Axis({1e-300, 1e300}, true, true, 0, 1)).size(), 9u);
}

TEST(Axis, ARangeWithoutAWidthHasOneNevertheless) {
  for (const double value : {0.0, 5.0, -3.0, 1e9}) {
    const Axis axis({value, value}, false, true, 0, 10);
    EXPECT_GE(axis.ticks().size(), 2u) << value;
    EXPECT_TRUE(axis.At(value) > 0 && axis.At(value) < 10) << value;
  }
  EXPECT_TRUE(std::isfinite(Axis({2, 2}, true, true, 0, 10).At(2)));
}

TEST(Axis, TheSmallestNumbersHaveTicksToo) {
  for (const double most : {1e-323, 1e-301, 1e-299}) {
    for (const bool rounded : {false, true}) {
      const Axis axis({5e-324, most}, false, rounded, 0, 10);
      EXPECT_LE(axis.ticks().size(), 20u) << most;
    }
  }
}

TEST(Axis, NumbersAreShort) {
  EXPECT_EQ(TickText(0), "0");
  EXPECT_EQ(TickText(250), "250");
  EXPECT_EQ(TickText(9999), "9999");
  EXPECT_EQ(TickText(20000), "20k");
  EXPECT_EQ(TickText(-1500000), "-1.5M");
  EXPECT_EQ(TickText(0.3), "0.3");
  EXPECT_EQ(TickText(0.00002), "2e-5");
  EXPECT_EQ(TickText(2.5e-12), "2.5e-12");
}

TEST(Chart, ThinningKeepsEndsAndExtremes) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 100000; ++i) points.push_back({static_cast<double>(i), 1});
  points[31415].y = 99;
  points[31416].y = -99;
  const std::vector<ChartPoint> thin = Thinned(points, 100);
  EXPECT_LE(thin.size(), 100u);
  EXPECT_GE(thin.size(), 50u);
  EXPECT_EQ(thin.front().x, 0);
  EXPECT_EQ(thin.back().x, 99999);
  const auto has = [&](double y) {
    return std::any_of(thin.begin(), thin.end(),
                       [y](const ChartPoint& p) { return p.y == y; });
  };
  EXPECT_TRUE(has(99));
  EXPECT_TRUE(has(-99));
  EXPECT_TRUE(std::is_sorted(
      thin.begin(), thin.end(),
      [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; }));
  EXPECT_EQ(Thinned(thin, 100).size(), thin.size());
}

TEST(Chart, IsWellFormedAndNamesItsSeries) {
  const std::string svg = DrawChart(
      {.title = "Loss <nats> & more",
       .x_label = "updates",
       .series = {{.name = "a\"b<", .points = {{1, 2}, {2, 1}}, .marked = true},
                  {.name = "", .points = {{1, 3}, {2, 3}}, .style = StyleOfLine(1)},
                  {.name = "not there", .points = {}, .style = StyleOfLine(2)}}});
  EXPECT_EQ(MarkupFault(svg), "");
  EXPECT_EQ(MarkupFault(SvgFile(svg)), "");
  EXPECT_THAT(svg,
              HasSubstr("role=\"img\" aria-label=\"Loss &lt;nats&gt; &amp; more\""));
  EXPECT_THAT(svg, HasSubstr(">a&quot;b&lt;</text>"));
  EXPECT_THAT(svg, HasSubstr("a&quot;b&lt;: 2 at 1 to 1 at 2."));
  EXPECT_THAT(svg, HasSubstr(">updates</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("not there")));
  EXPECT_THAT(svg, HasSubstr(StrCat("stroke=\"", StyleOfLine(1).colour, "\"")));
  EXPECT_THAT(SvgFile(svg), HasSubstr("prefers-color-scheme:dark"));
}

TEST(Chart, LeavesOutWhatCannotBeDrawn) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<ChartPoint> points = {{1, kNan},
                                          {2, 5},
                                          {3, std::numeric_limits<double>::infinity()},
                                          {4, -1},
                                          {5, 50}};
  const std::string linear = DrawChart({.title = "t", .series = {{.points = points}}});
  const std::string logarithmic =
      DrawChart({.title = "t", .logarithmic = true, .series = {{.points = points}}});
  for (const std::string& svg : {linear, logarithmic}) {
    EXPECT_EQ(MarkupFault(svg), "");
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
  }
  EXPECT_THAT(linear, HasSubstr(">0</text>"));
  EXPECT_THAT(logarithmic, Not(HasSubstr(">0</text>")));
  const std::string empty =
      DrawChart({.title = "t", .series = {{.name = "a", .points = {{1, kNan}}}}});
  EXPECT_THAT(empty, HasSubstr("nothing recorded yet"));
  EXPECT_EQ(MarkupFault(empty), "");
}

TEST(Chart, MorePointsThanPixelsAreNoLargerFile) {
  ChartSeries series{.name = "a"};
  for (int i = 0; i < 300000; ++i) {
    series.points.push_back({static_cast<double>(i), std::sin(i * 0.1)});
  }
  EXPECT_LT(DrawChart({.title = "t", .series = {series}}).size(), 40000u);
}

TEST(Chart, ManySeriesDifferInColourOrDash) {
  Chart chart{.title = "t"};
  for (size_t i = 0; i < 12; ++i) {
    chart.series.push_back(
        {.name = "run", .points = {{0, 0}, {1, 1}}, .style = StyleOfLine(i)});
  }
  const std::string svg = DrawChart(chart);
  EXPECT_EQ(StyleOfLine(0).colour, StyleOfLine(7).colour);
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray=\"6 3\""));
  EXPECT_EQ(MarkupFault(svg), "");
}

}  // namespace
}  // namespace mnemon
