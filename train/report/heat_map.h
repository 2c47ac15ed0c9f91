// SPDX-License-Identifier: MIT
// A matrix of weights as shades in SVG.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mnemon {

struct HeatMap {
  std::string title;
  std::string row_name;     // what a row is, with the plural "query tokens"
  std::string column_name;  // likewise
  // One short label each; where they are many, only some are drawn.
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::span<const float> weights;  // [rows, columns], 0 to 1
};

// Row 0 is at the top, column 0 at the left. The darkest shade (in a dark page the
// brightest) stands for the largest weight, which is told. REQUIRES: rows x columns
// weights, at least one.
std::string DrawHeatMap(const HeatMap& map);

// A token as a label: white space, which would not be seen, has signs of its own.
std::string TokenLabel(std::string_view bytes);

}  // namespace mnemon
