// SPDX-License-Identifier: MIT
// A line chart as SVG.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train/report/palette.h"

namespace mnemon {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartSeries {
  std::string name;                // in the legend; empty: it is not listed
  std::vector<ChartPoint> points;  // x ascending
  LineStyle style;
  // Thick with marks; else a thin line.
  bool marked = false;
  bool faint = false;  // half transparent
};

struct Chart {
  std::string title;         // with the unit of y
  std::string x_label;       // with its unit
  bool logarithmic = false;  // y; points with y <= 0 are left out then
  double width = 480;        // pixels of the picture, before it shrinks or grows
  double plot_height = 220;
  std::vector<ChartSeries> series;
};

// Points whose numbers are not finite are left out, and what remains is thinned. The
// legend is part of the picture. A chart without points says so.
std::string DrawChart(const Chart& chart);

// At most `most` of the points, with the first, the last, and the least and the largest
// of every stretch between. REQUIRES: most >= 4.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most);

}  // namespace mnemon
