// SPDX-License-Identifier: MIT
#include "train/report/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/strings.h"
#include "train/report/markup.h"
#include "train/report/palette.h"
#include "train/report/svg_text.h"

namespace mnemon {
namespace {

constexpr double kMapWidth = 360;
constexpr double kMapLeft = 30;  // room for labels of rows
constexpr double kMapTop = 62;
constexpr double kMapRight = 8;
constexpr double kMapBottom = 26;
constexpr double kMapSide = kMapWidth - kMapLeft - kMapRight;
constexpr size_t kShades = 24;
constexpr size_t kMostLabels = 48;
constexpr size_t kMostLabel = 3;  // characters

// Neighbours of one shade in a row are one rectangle, and all of one shade one path.
std::string DrawCells(const HeatMap& map, float largest) {
  const size_t columns = map.columns.size();
  std::array<std::string, kShades + 1> paths;
  const auto shade = [&](size_t cell) {
    // Leaves out weights that are not numbers, as in a model that diverges.
    const float weight = map.weights[cell];
    const float part = weight > 0 ? std::min(weight / largest, 1.0f) : 0.0f;
    return static_cast<size_t>(std::lround(part * kShades));
  };
  for (size_t i = 0; i < map.rows.size(); ++i) {
    for (size_t j = 0, end; j < columns; j = end) {
      const size_t of_run = shade(i * columns + j);
      for (end = j + 1; end < columns && shade(i * columns + end) == of_run;) ++end;
      paths[of_run] += absl::StrFormat("M%d %dh%dv1h-%dz", j, i, end - j, end - j);
    }
  }
  std::string out;
  for (size_t s = 1; s <= kShades; ++s) {
    if (paths[s].empty()) continue;
    out += absl::StrFormat("<path fill-opacity=\"%.3f\" d=\"%s\"/>\n",
                           static_cast<double>(s) / kShades, paths[s]);
  }
  return out;
}

std::string DrawLabels(const HeatMap& map, double cell, double height) {
  const auto every = [](size_t count) {
    return (count + kMostLabels - 1) / kMostLabels;
  };
  std::string out = absl::StrFormat("<g font-size=\"%.1f\" fill-opacity=\"0.8\">",
                                    std::clamp(cell * 0.95, 6.5, 11.0));
  for (size_t j = 0; j < map.columns.size(); j += every(map.columns.size())) {
    out += DrawText({.x = kMapLeft + (static_cast<double>(j) + 0.5) * cell,
                     .y = kMapTop - 5,
                     .attributes = " text-anchor=\"middle\"",
                     .text = Shortened(map.columns[j], kMostLabel)});
  }
  for (size_t i = 0; i < map.rows.size(); i += every(map.rows.size())) {
    out += DrawText({.x = kMapLeft - 5,
                     .y = kMapTop + (static_cast<double>(i) + 0.5) * height + 3,
                     .attributes = " text-anchor=\"end\"",
                     .text = Shortened(map.rows[i], kMostLabel)});
  }
  return out + "</g>\n";
}

}  // namespace

std::string DrawHeatMap(const HeatMap& map) {
  const size_t rows = map.rows.size(), columns = map.columns.size();
  MNEMON_CHECK(rows > 0 && columns > 0 && map.weights.size() == rows * columns);
  // Cells are square unless that would make a picture of few rows a line.
  const double cell = kMapSide / static_cast<double>(columns);
  const double height = std::clamp(cell * static_cast<double>(rows), 40.0, kMapSide) /
                        static_cast<double>(rows);
  const float largest =
      std::max(1e-12f, *std::max_element(map.weights.begin(), map.weights.end()));
  const double bottom = kMapTop + height * static_cast<double>(rows);
  const std::string scale =
      absl::StrFormat("Shades from 0 to %.3g", static_cast<double>(largest));
  std::string out = BeginSvg(
      kMapWidth, bottom + kMapBottom, map.title,
      StrCat("Rows: ", map.row_name, ". Columns: ", map.column_name, ". ", scale, "."));
  out += DrawText({.x = kMapLeft,
                   .y = 16,
                   .attributes = " font-size=\"13\" font-weight=\"600\"",
                   .text = map.title});
  out += DrawText(
      {.x = kMapLeft,
       .y = 34,
       .attributes = " font-size=\"11\" fill-opacity=\"0.75\"",
       .text = StrCat("\u2193 ", map.row_name, "   \u2192 ", map.column_name)});
  out += DrawLabels(map, cell, height);
  out += absl::StrFormat(
      "<g class=\"heat\" fill=\"%s\" transform=\"translate(%.1f %.1f) scale(%.4f "
      "%.4f)\">\n",
      kHeat, kMapLeft, kMapTop, cell, height);
  out += DrawCells(map, largest);
  out += absl::StrFormat(
      "</g><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
      "stroke=\"currentColor\" stroke-opacity=\"0.3\"/>\n",
      kMapLeft, kMapTop, kMapSide, bottom - kMapTop);
  out += DrawText({.x = kMapLeft,
                   .y = bottom + 17,
                   .attributes = " font-size=\"11\" fill-opacity=\"0.75\"",
                   .text = scale});
  return out + "</svg>";
}

std::string TokenLabel(std::string_view bytes) {
  if (bytes == "\n") return "\u21b5";
  if (bytes == " ") return "\u00b7";
  if (bytes == "\t") return "\u21e5";
  return std::string(bytes);
}

}  // namespace mnemon
