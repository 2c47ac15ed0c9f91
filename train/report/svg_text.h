// SPDX-License-Identifier: MIT
// SVG elements shared by the pictures of a report. The text takes its colour from the
// page around it; a picture can also be a file of its own.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

// Assumed width of a glyph, enough in most typefaces.
inline constexpr double kGlyphWidth = 0.58;  // of the font size

struct SvgText {
  double x = 0;
  double y = 0;                   // baseline
  std::string_view attributes{};  // each after a space
  std::string_view text;          // not escaped yet
};
// Draws a text element.
std::string DrawText(const SvgText& text);

// Begins a picture of this natural size, which scales to its place on the page. `name`
// and `description` are for readers who cannot see it. End it with "</svg>".
std::string BeginSvg(double width, double height, std::string_view name,
                     std::string_view description);

// Makes a file of the picture: adds a size, a background and colours for light and
// dark.
std::string SvgFile(std::string_view svg);

}  // namespace mnemon
