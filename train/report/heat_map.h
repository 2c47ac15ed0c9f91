// SPDX-License-Identifier: MIT
// A matrix of weights as a shaded SVG picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

struct HeatMap {
  std::string title;
  std::string row_name;     // what a row is, such as "query token"
  std::string column_name;  // likewise
  // A short label for each; if there are many, only some are drawn.
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::span<const float> weights;  // [rows, columns], 0 to 1
};

// Draws the map with row 0 at the top and column 0 at the left. The darkest shade (on a
// dark page the brightest) is the largest weight, which the scale states. REQUIRES:
// rows x columns weights, at least one.
std::string DrawHeatMap(const HeatMap& map);

// A token as a label; white space is shown by visible signs.
std::string TokenLabel(std::string_view bytes);

}  // namespace mnemon
