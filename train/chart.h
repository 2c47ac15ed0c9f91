// SPDX-License-Identifier: MIT
// A line chart as SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mnemon {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;                // in the legend; empty: it is not listed
  std::vector<ChartPoint> points;  // x ascending
  size_t colour = 0;               // any number: colours and dashes take turns
  // Thick with marks that are shaped after the colour; else a thin line.
  bool marked = false;
};

struct Chart {
  std::string title;         // with the unit of y
  std::string x_label;       // with its unit
  bool logarithmic = false;  // y; points with y <= 0 are left out then
  std::vector<ChartSeries> series;
};

// Points whose numbers are not finite are left out, and what remains is thinned. The
// legend is part of the picture. A chart without points says so.
std::string DrawChart(const Chart& chart);

// At most `most` of the points, with the first, the last, and the least and the largest
// of every stretch between. REQUIRES: most >= 4.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most);

// The colour that a series has, "#rrggbb": told apart by people who see few colours,
// and readable on white and on black.
std::string SeriesColour(size_t colour);

}  // namespace mnemon
