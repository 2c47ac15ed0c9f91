// SPDX-License-Identifier: MIT
#include "train/report/attention_picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/strings.h"
#include "train/report/palette.h"
#include "train/report/svg_text.h"

namespace mnemon {
namespace {

constexpr double kHeadSide = 208;  // pixels
constexpr double kGap = 44;        // left of and above each map, for its labels
constexpr double kTop = 34;        // the title
constexpr double kBottom = 42;     // the scale
constexpr size_t kHeadShades = 32;
// More labels would run into each other.
constexpr size_t kLabels = 32;

std::string Text(double x, double y, const char* more, const std::string& text) {
  return StrCat(DrawText({.x = x, .y = y, .attributes = more, .text = text}), "\n");
}

std::string Shade(size_t shade) {
  return absl::StrFormat("fill-opacity=\"%.3f\"",
                         static_cast<double>(shade) / kHeadShades);
}

// One map with its labels. Cells of one shade are one path: a file of rectangles would
// be ten times as large.
std::string DrawMap(std::span<const float> weights, std::span<const int32_t> tokens,
                    double left, double top, const std::string& name) {
  const size_t time = tokens.size();
  const double cell = kHeadSide / static_cast<double>(time);
  std::array<std::string, kHeadShades + 1> shades;
  for (size_t i = 0; i < time; ++i) {
    for (size_t j = 0; j < time; ++j) {
      const double weight = std::clamp<double>(weights[i * time + j], 0.0, 1.0);
      const auto shade = static_cast<size_t>(std::lround(weight * kHeadShades));
      shades[shade] += absl::StrFormat("M%d %dh1v1h-1z", j, i);
    }
  }
  std::string out = Text(left, top - 22, " font-weight=\"600\"", name);
  out += absl::StrFormat(
      "<g class=\"heat\" fill=\"%s\" transform=\"translate(%.1f,%.1f) "
      "scale(%.4f)\">\n",
      kHeat, left, top, cell);
  for (size_t shade = 1; shade < shades.size(); ++shade) {
    if (shades[shade].empty()) continue;
    out += absl::StrFormat("<path %s d=\"%s\"/>\n", Shade(shade), shades[shade]);
  }
  out += absl::StrFormat(
      "</g>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
      "stroke=\"currentColor\" stroke-opacity=\"0.3\"/>\n",
      left, top, kHeadSide, kHeadSide);
  for (size_t t = 0; time <= kLabels && t < time; ++t) {
    const double middle = (static_cast<double>(t) + 0.5) * cell;
    out += Text(left + middle, top - 5, " text-anchor=\"middle\"", StrCat(tokens[t]));
    out +=
        Text(left - 5, top + middle + 3.5, " text-anchor=\"end\"", StrCat(tokens[t]));
  }
  return out;
}

std::string DrawScale(double left, double top) {
  std::string out = Text(left, top + 10, "", "weight 0");
  out += absl::StrFormat("<g class=\"heat\" fill=\"%s\">\n", kHeat);
  for (size_t shade = 0; shade <= kHeadShades; ++shade) {
    out +=
        absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"5\" height=\"12\" %s/>\n",
                        left + 56 + 5 * static_cast<double>(shade), top, Shade(shade));
  }
  return out + "</g>\n" +
         Text(left + 64 + 5 * static_cast<double>(kHeadShades + 1), top + 10, "", "1");
}

}  // namespace

std::string DrawAttention(const AttentionPicture& picture) {
  const size_t time = picture.tokens.size();
  const auto heads = static_cast<size_t>(picture.heads);
  const size_t columns = heads == 1 ? 1 : heads + 1;
  const double width = kGap / 2 + static_cast<double>(columns) * (kHeadSide + kGap);
  const double height =
      kTop + kBottom + static_cast<double>(picture.maps.size()) * (kHeadSide + kGap);
  std::string out =
      BeginSvg(width, height, picture.title,
               StrCat("Of ", picture.maps.size(), " layers the weights of ", heads,
                      " heads over ", time, " tokens: rows look at columns."));
  out += Text(kGap, 22, " font-size=\"14\" font-weight=\"600\"", picture.title);
  for (size_t layer = 0; layer < picture.maps.size(); ++layer) {
    const UnsetFloats& map = picture.maps[layer];
    MNEMON_CHECK(map.size() == heads * time * time);
    const double top = kTop + kGap + static_cast<double>(layer) * (kHeadSide + kGap);
    double left = kGap;
    const auto draw = [&](std::span<const float> weights, const std::string& name) {
      out += DrawMap(weights, picture.tokens, left, top,
                     StrCat("layer ", layer + 1, ", ", name));
      left += kHeadSide + kGap;
    };
    if (heads > 1) {
      std::vector<float> mean(time * time);
      for (size_t i = 0; i < map.size(); ++i) {
        mean[i % mean.size()] += map[i] / static_cast<float>(heads);
      }
      draw(mean, "mean of the heads");
    }
    for (size_t head = 0; head < heads; ++head) {
      draw(std::span(map).subspan(head * time * time, time * time),
           StrCat("head ", head + 1));
    }
  }
  return SvgFile(out + DrawScale(kGap, height - 26) + "</svg>");
}

}  // namespace mnemon
