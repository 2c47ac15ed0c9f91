// SPDX-License-Identifier: MIT
#include "train/report/palette.h"

#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/families/families.h"

namespace mnemon {
namespace {

// Relative luminance and contrast of WCAG 2.
double Luminance(std::string_view colour) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const double part =
        std::stoi(std::string(colour.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    const double linear =
        part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
    sum += linear * std::vector<double>{0.2126, 0.7152, 0.0722}[i];
  }
  return sum;
}

double Contrast(std::string_view a, std::string_view b) {
  const double x = Luminance(a), y = Luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

// 3 is what WCAG asks of graphics, 7 of text at its strictest.
TEST(Palette, IsReadableOnLightAndDark) {
  EXPECT_GE(Contrast(kInk, kPaper), 7);
  EXPECT_GE(Contrast(kDarkInk, kDarkPaper), 7);
  EXPECT_GE(Contrast(kHeat, kPaper), 7);
  EXPECT_GE(Contrast(kDarkHeat, kDarkPaper), 7);
  std::vector<std::string_view> colours = {kOtherColour};
  colours.insert(colours.end(), std::begin(kColours), std::end(kColours));
  for (const std::string_view colour : colours) {
    EXPECT_GE(Contrast(colour, kPaper), 3) << colour;
    EXPECT_GE(Contrast(colour, kDarkPaper), 3) << colour;
  }
  EXPECT_EQ(std::set(colours.begin(), colours.end()).size(), 8u);
}

TEST(Palette, RunsOfOneArchitectureDifferInDashesAlone) {
  const LineStyle first = StyleOfArchitecture("feedback", 0);
  const LineStyle second = StyleOfArchitecture("feedback", 1);
  EXPECT_EQ(first.colour, second.colour);
  EXPECT_NE(first.dash, second.dash);
  EXPECT_EQ(StyleOfArchitecture("", 0).colour, kOtherColour);
  const std::vector<std::string> names = TypedNames();
  ASSERT_EQ(names.size(), std::size(kColours));
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(StyleOfArchitecture(names[i], 0).colour, kColours[i]);
  }
}

}  // namespace
}  // namespace mnemon
