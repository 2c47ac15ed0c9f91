// SPDX-License-Identifier: MIT
// The colours of all pictures, for light and dark pages: one for each architecture.
// bench/palette.py has the same colours for scripts; a test compares the two.
#pragma once

#include <cstddef>
#include <string_view>

namespace mnemon {

// "#rrggbb", in the order of TypedNames (model/families); further lines repeat them.
// Can be told apart by colour-blind readers, and read on white and on black.
inline constexpr std::string_view kColours[] = {
    "#2f7fd6", "#b65cc4", "#d9700f", "#1c9a70", "#8a8f98", "#c9485b", "#178fa9"};
// For a run of unknown architecture.
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
  size_t dash = 0;  // 0: solid; any number, as dash patterns repeat
  size_t mark = 0;  // shape of the marks; any number, likewise
};

// The style of a run of this architecture, after `before` others of the same in the
// picture. Such runs differ in dashes.
LineStyle StyleOfArchitecture(std::string_view architecture, size_t before);

// The style of line `i` of a picture whose lines are not architectures: cycles through
// the colours, then the dashes.
LineStyle StyleOfLine(size_t i);

}  // namespace mnemon
