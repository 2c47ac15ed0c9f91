// SPDX-License-Identifier: MIT
#include "train/report/svg_text.h"

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/strings.h"
#include "train/report/markup.h"
#include "train/report/palette.h"

namespace mnemon {

std::string DrawText(const SvgText& text) {
  return StrCat(absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\"", text.x, text.y),
                text.attributes, ">", EscapeMarkup(text.text), "</text>");
}

std::string BeginSvg(double width, double height, std::string_view name,
                     std::string_view description) {
  return StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "viewBox=\"0 0 %.0f %.0f\"",
                      width, height),
      " role=\"img\" aria-label=\"", EscapeMarkup(name),
      "\" font-family=\"system-ui,Helvetica,Arial,sans-serif\" font-size=\"12\" "
      "fill=\"currentColor\"><desc>",
      EscapeMarkup(description), "</desc>\n");
}

std::string SvgFile(std::string_view svg) {
  const size_t end = svg.find('>');
  MNEMON_CHECK(end != svg.npos);
  return StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", svg.substr(0, end + 1),
                "<style>svg{color:", kInk, ";background:", kPaper,
                "}@media (prefers-color-scheme:dark){svg{color:", kDarkInk,
                ";background:", kDarkPaper, "}.heat{fill:", kDarkHeat, "}}</style>",
                svg.substr(end + 1), "\n");
}

}  // namespace mnemon
