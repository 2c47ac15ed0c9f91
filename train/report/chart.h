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
  std::string name;                // in the legend; empty: not listed
  std::vector<ChartPoint> points;  // x ascending
  LineStyle style;
  bool marked = false;  // thick with marks, else a thin line
  bool faint = false;   // half transparent
};

struct Chart {
  std::string title;         // with the unit of y
  std::string x_label;       // with its unit
  bool logarithmic = false;  // y axis; leaves out points with y <= 0
  double width = 480;        // pixels of the picture at its natural size
  double plot_height = 220;
  std::vector<ChartSeries> series;
};

// Draws the chart with its legend. Points that are not finite are left out, the others
// thinned. A chart without points says so.
std::string DrawChart(const Chart& chart);

// Selects at most `most` points: the first, the last, and the lowest and highest of
// every stretch between. REQUIRES: most >= 4.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most);

}  // namespace mnemon
