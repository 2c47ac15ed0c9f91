// SPDX-License-Identifier: MIT
// The colours of all pictures, on light and on dark: one for each architecture.
// bench/palette.py has the same ones for scripts; a test compares the two.
#pragma once

#include <cstddef>
#include <string_view>

namespace mnemon {

// "#rrggbb", in the order of TypedNames (model/families); beyond them they take turns.
// Told apart by people who see few colours, and readable on white and on black.
inline constexpr std::string_view kColours[] = {
    "#2f7fd6", "#b65cc4", "#d9700f", "#1c9a70", "#8a8f98", "#c9485b", "#178fa9"};
// Of a run whose architecture is not known.
inline constexpr std::string_view kOtherColour = "#a8893a";

// Text and background, on light and on dark.
inline constexpr std::string_view kInk = "#1f2328";
inline constexpr std::string_view kPaper = "#ffffff";
inline constexpr std::string_view kDarkInk = "#e6e8eb";
inline constexpr std::string_view kDarkPaper = "#14171c";
// Cells of maps, drawn more or less opaque.
inline constexpr std::string_view kHeat = "#0a4a94";
inline constexpr std::string_view kDarkHeat = "#8fd0ff";

// How a line of a chart looks.
struct LineStyle {
  std::string_view colour = kOtherColour;
  size_t dash = 0;  // 0: solid; any number, the dashes take turns
  size_t mark = 0;  // likewise of the shapes
};

// Of a run of this architecture, of which `before` others are in the picture: these
// differ in dashes.
LineStyle StyleOfArchitecture(std::string_view architecture, size_t before);

// Of line `i` of a picture whose lines are no architectures: colours take turns, then
// dashes.
LineStyle StyleOfLine(size_t i);

}  // namespace mnemon
