// SPDX-License-Identifier: MIT
#include "train/report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "train/report/axis.h"
#include "train/report/markup.h"
#include "train/report/svg_text.h"

namespace mnemon {
namespace {

constexpr double kFont = 12;
constexpr double kPlotTop = 34;
constexpr double kRight = 14;
constexpr double kLegendRow = 20;
constexpr double kSwatch = 26;
constexpr size_t kMostPoints = 2000;
constexpr size_t kMostMarks = 24;
constexpr size_t kMostName = 44;  // characters in the legend

constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "9 3 2 3"};

std::string Stroke(const ChartSeries& series) {
  const std::string_view dash = kDashes[series.style.dash % kDashes.size()];
  return StrCat(" stroke-width=\"", series.marked ? "2.2" : "1.3", "\" stroke=\"",
                series.style.colour, "\"",
                dash.empty() ? "" : StrCat(" stroke-dasharray=\"", dash, "\""),
                series.faint ? " stroke-opacity=\"0.5\"" : "");
}

// A circle, square, diamond, triangle, the same downwards, a lying or a standing bar.
std::string Mark(double x, double y, const LineStyle& style) {
  constexpr std::array<const char*, 7> kShapes = {"m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",
                                                  "m-3 -3h6v6h-6z",
                                                  "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
                                                  "m0 -4l4 7h-8z",
                                                  "m0 4l-4 -7h8z",
                                                  "m-4.5 -1.8h9v3.6h-9z",
                                                  "m-1.8 -4.5h3.6v9h-3.6z"};
  return absl::StrFormat("<path fill=\"%s\" d=\"M%.1f %.1f%s\"/>", style.colour, x, y,
                         kShapes[style.mark % kShapes.size()]);
}

std::vector<ChartPoint> Drawable(const ChartSeries& series, bool logarithmic) {
  std::vector<ChartPoint> points;
  for (const ChartPoint& point : series.points) {
    if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
    if (!logarithmic || point.y > 0) points.push_back(point);
  }
  return Thinned(points, kMostPoints);
}

struct Ranges {
  AxisRange x{std::numeric_limits<double>::infinity(),
              -std::numeric_limits<double>::infinity()};
  AxisRange y = x;
};

Ranges RangesOf(const std::vector<std::vector<ChartPoint>>& lines) {
  Ranges ranges;
  for (const std::vector<ChartPoint>& points : lines) {
    for (const ChartPoint& point : points) {
      ranges.x = {std::min(ranges.x.least, point.x), std::max(ranges.x.most, point.x)};
      ranges.y = {std::min(ranges.y.least, point.y), std::max(ranges.y.most, point.y)};
    }
  }
  // The first row of a run is near its beginning: the axis shows the whole of it.
  if (ranges.x.least > 0 && ranges.x.least < 0.2 * ranges.x.most) ranges.x.least = 0;
  return ranges;
}

std::string DrawGrid(const Axis& x, const Axis& y, double left, double right,
                     double bottom) {
  std::string lines, labels;
  for (const double tick : y.ticks()) {
    lines += absl::StrFormat("M%.1f %.1fH%.1f", left, y.At(tick), right);
    labels += DrawText({.x = left - 6,
                        .y = y.At(tick) + 4,
                        .attributes = " text-anchor=\"end\"",
                        .text = TickText(tick)});
  }
  for (const double tick : x.ticks()) {
    lines += absl::StrFormat("M%.1f %.1fV%.1f", x.At(tick), kPlotTop, bottom);
    labels += DrawText({.x = x.At(tick),
                        .y = bottom + 17,
                        .attributes = " text-anchor=\"middle\"",
                        .text = TickText(tick)});
  }
  return StrCat(
      "<path fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.16\" d=\"", lines,
      "\"/>\n<g fill-opacity=\"0.75\">", labels, "</g>\n");
}

std::string DrawSeries(const ChartSeries& series, const std::vector<ChartPoint>& points,
                       const Axis& x, const Axis& y) {
  if (points.empty()) return "";
  std::string path, marks;
  for (const ChartPoint& point : points) {
    path += absl::StrFormat("%c%.1f %.1f", path.empty() ? 'M' : 'L', x.At(point.x),
                            y.At(point.y));
  }
  const size_t every = (points.size() + kMostMarks - 1) / kMostMarks;
  const bool marked = series.marked || points.size() == 1;
  for (size_t i = 0; marked && i < points.size(); ++i) {
    const size_t from_last = points.size() - 1 - i;
    if (from_last % every == 0) {
      marks += Mark(x.At(points[i].x), y.At(points[i].y), series.style);
    }
  }
  return StrCat("<path fill=\"none\" stroke-linejoin=\"round\"", Stroke(series),
                " d=\"", path, "\"/>\n", marks);
}

struct Legend {
  std::string svg;
  double height = 0;
};

Legend DrawLegend(const Chart& chart, const std::vector<std::vector<ChartPoint>>& lines,
                  double top) {
  Legend legend;
  double x = 10;
  for (size_t i = 0; i < lines.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    if (series.name.empty() || lines[i].empty()) continue;
    const std::string name = Shortened(series.name, kMostName);
    const double width = kSwatch + kGlyphWidth * kFont * CountCharacters(name) + 14;
    if (legend.height == 0) legend.height = kLegendRow;
    if (x > 10 && x + width > chart.width) {
      x = 10;
      legend.height += kLegendRow;
    }
    const double y = top + legend.height - 8;
    legend.svg += absl::StrFormat("<path fill=\"none\"%s d=\"M%.1f %.1fh20\"/>",
                                  Stroke(series), x, y - 4);
    if (series.marked) legend.svg += Mark(x + 10, y - 4, series.style);
    legend.svg += DrawText({.x = x + kSwatch, .y = y, .text = name});
    x += width;
  }
  return legend;
}

std::string Describe(const Chart& chart,
                     const std::vector<std::vector<ChartPoint>>& lines) {
  std::string text = StrCat("Over ", chart.x_label, ".");
  for (size_t i = 0; i < lines.size(); ++i) {
    if (chart.series[i].name.empty() || lines[i].empty()) continue;
    const ChartPoint &first = lines[i].front(), &last = lines[i].back();
    text += absl::StrFormat(" %s: %.4g at %.6g to %.4g at %.6g.", chart.series[i].name,
                            first.y, first.x, last.y, last.x);
  }
  return text;
}

}  // namespace

std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t most) {
  if (points.size() <= most) return points;
  std::vector<ChartPoint> kept = {points.front()};
  const size_t inner = points.size() - 2, stretches = (most - 2) / 2;
  for (size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + 1 + static_cast<int64_t>(i * inner / stretches);
    const auto end =
        points.begin() + 1 + static_cast<int64_t>((i + 1) * inner / stretches);
    auto [least, largest] = std::minmax_element(
        begin, end, [](const ChartPoint& a, const ChartPoint& b) { return a.y < b.y; });
    if (largest < least) std::swap(least, largest);
    kept.push_back(*least);
    if (largest != least) kept.push_back(*largest);
  }
  kept.push_back(points.back());
  return kept;
}

std::string DrawChart(const Chart& chart) {
  std::vector<std::vector<ChartPoint>> lines;
  for (const ChartSeries& series : chart.series) {
    lines.push_back(Drawable(series, chart.logarithmic));
  }
  const double bottom = kPlotTop + chart.plot_height, right = chart.width - kRight;
  const Legend legend = DrawLegend(chart, lines, bottom + 40);
  std::string out = BeginSvg(chart.width, bottom + 44 + legend.height, chart.title,
                             Describe(chart, lines));
  out += DrawText({.x = 10,
                   .y = 19,
                   .attributes = " font-size=\"14\" font-weight=\"600\"",
                   .text = chart.title});
  const bool empty = std::all_of(lines.begin(), lines.end(),
                                 [](const auto& points) { return points.empty(); });
  if (empty) {
    return out +
           DrawText({.x = chart.width / 2,
                     .y = kPlotTop + chart.plot_height / 2,
                     .attributes = " text-anchor=\"middle\"",
                     .text = "nothing recorded yet"}) +
           "</svg>";
  }
  const Ranges ranges = RangesOf(lines);
  const Axis y(ranges.y, chart.logarithmic, /*rounded=*/true, bottom, kPlotTop);
  size_t widest = 0;
  for (const double tick : y.ticks()) widest = std::max(widest, TickText(tick).size());
  const double left = 16 + kGlyphWidth * kFont * static_cast<double>(widest);
  const Axis x(ranges.x, false, /*rounded=*/false, left + 4, right - 4);
  out += DrawGrid(x, y, left, right, bottom);
  for (size_t i = 0; i < lines.size(); ++i) {
    out += DrawSeries(chart.series[i], lines[i], x, y);
  }
  out += DrawText({.x = (left + right) / 2,
                   .y = bottom + 35,
                   .attributes = " text-anchor=\"middle\" fill-opacity=\"0.75\"",
                   .text = chart.x_label});
  return out + legend.svg + "</svg>";
}

}  // namespace mnemon
