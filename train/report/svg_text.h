// SPDX-License-Identifier: MIT
// What the pictures of a report share: SVG that takes the colour of its text from where
// it stands, and can be a file of its own.
#pragma once

#include <string>
#include <string_view>

namespace mnemon {

// Widths of glyphs differ; this one leaves room in most faces.
inline constexpr double kGlyphWidth = 0.58;  // of the font size

struct SvgText {
  double x = 0;
  double y = 0;                   // of the base line
  std::string_view attributes{};  // with a space before each
  std::string_view text;          // not escaped yet
};
// A text element.
std::string DrawText(const SvgText& text);

// The element that begins a picture of this size, which shrinks and grows with the
// place it gets, with its name and description for those who do not see it. The end is
// "</svg>".
std::string BeginSvg(double width, double height, std::string_view name,
                     std::string_view description);

// The picture as a file: with a size, a background and colours for light and dark.
std::string SvgFile(std::string_view svg);

}  // namespace mnemon
