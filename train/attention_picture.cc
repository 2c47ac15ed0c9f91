// SPDX-License-Identifier: MIT
#include "train/attention_picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr double kMapSide = 208;  // pixels
constexpr double kGap = 44;       // left of and above each map, for its labels
constexpr double kTop = 34;       // the title
constexpr double kBottom = 42;    // the scale
constexpr int kShades = 32;
// Labels of more tokens than that would run into each other.
constexpr size_t kLabels = 32;

// From white over blue to nearly black.
std::string Shade(double weight) {
  struct Stop {
    double at;
    std::array<double, 3> colour;
  };
  constexpr std::array<Stop, 4> kStops = {{{0.0, {255, 255, 255}},
                                           {0.3, {158, 196, 222}},
                                           {0.65, {48, 112, 174}},
                                           {1.0, {8, 30, 72}}}};
  size_t next = 1;
  while (next + 1 < kStops.size() && weight > kStops[next].at) ++next;
  const Stop &a = kStops[next - 1], &b = kStops[next];
  const double part = (weight - a.at) / (b.at - a.at);
  std::array<int, 3> c{};
  for (size_t i = 0; i < c.size(); ++i) {
    c[i] =
        static_cast<int>(std::lround(a.colour[i] + part * (b.colour[i] - a.colour[i])));
  }
  return absl::StrFormat("#%02x%02x%02x", c[0], c[1], c[2]);
}

std::string Text(double x, double y, const char* more, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\"%s>%s</text>\n", x, y, more, text);
}

// One map with its labels. Cells of one shade are one path: a file of rectangles would
// be ten times as large.
std::string DrawMap(std::span<const float> weights, std::span<const int32_t> tokens,
                    double left, double top, const std::string& name) {
  const size_t time = tokens.size();
  const double cell = kMapSide / static_cast<double>(time);
  std::array<std::string, kShades + 1> shades;
  for (size_t i = 0; i < time; ++i) {
    for (size_t j = 0; j < time; ++j) {
      const double weight = std::clamp<double>(weights[i * time + j], 0.0, 1.0);
      const auto shade = static_cast<size_t>(std::lround(weight * kShades));
      shades[shade] += absl::StrFormat("M%d %dh1v1h-1z", j, i);
    }
  }
  std::string out = Text(left, top - 22, " font-weight=\"bold\"", name);
  out += absl::StrFormat("<g transform=\"translate(%.1f,%.1f) scale(%.4f)\">\n", left,
                         top, cell);
  for (size_t shade = 1; shade < shades.size(); ++shade) {
    if (shades[shade].empty()) continue;
    out += absl::StrFormat("<path fill=\"%s\" d=\"%s\"/>\n",
                           Shade(static_cast<double>(shade) / kShades), shades[shade]);
  }
  out += absl::StrFormat(
      "</g>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
      "stroke=\"#999\"/>\n",
      left, top, kMapSide, kMapSide);
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
  for (int shade = 0; shade <= kShades; ++shade) {
    out += absl::StrFormat(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"5\" height=\"12\" fill=\"%s\"/>\n",
        left + 52 + 5 * shade, top, Shade(static_cast<double>(shade) / kShades));
  }
  return out + Text(left + 60 + 5 * (kShades + 1), top + 10, "", "1");
}

}  // namespace

std::string DrawAttention(const AttentionPicture& picture) {
  const size_t time = picture.tokens.size();
  const auto heads = static_cast<size_t>(picture.heads);
  const size_t columns = heads == 1 ? 1 : heads + 1;
  const double width = kGap / 2 + static_cast<double>(columns) * (kMapSide + kGap);
  const double height =
      kTop + kBottom + static_cast<double>(picture.maps.size()) * (kMapSide + kGap);
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "width=\"%.0f\" height=\"%.0f\" font-family=\"Helvetica,Arial,sans-serif\" "
      "font-size=\"10\" fill=\"#333\">\n<rect width=\"%.0f\" height=\"%.0f\" "
      "fill=\"#ffffff\"/>\n",
      width, height, width, height, width, height);
  out += Text(kGap, 22, " font-size=\"14\" font-weight=\"bold\"", picture.title);
  for (size_t layer = 0; layer < picture.maps.size(); ++layer) {
    const UnsetFloats& map = picture.maps[layer];
    MNEMON_CHECK(map.size() == heads * time * time);
    const double top = kTop + kGap + static_cast<double>(layer) * (kMapSide + kGap);
    double left = kGap;
    const auto draw = [&](std::span<const float> weights, const std::string& name) {
      out += DrawMap(weights, picture.tokens, left, top,
                     StrCat("layer ", layer + 1, ", ", name));
      left += kMapSide + kGap;
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
  return out + DrawScale(kGap, height - 26) + "</svg>\n";
}

}  // namespace mnemon
