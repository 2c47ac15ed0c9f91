// SPDX-License-Identifier: MIT
// The curves of several runs together: each run in the colour of its architecture.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/report/chart.h"
#include "train/report/palette.h"
#include "train/report/report_page.h"
#include "train/run/metrics.h"
#include "train/run/run_record.h"

namespace mnemon {

// What stands on the x axis.
struct CurveX {
  std::string_view name;    // for a flag
  std::string_view column;  // of metrics.csv
  std::optional<double> (*of)(const MetricsRow& row);
};
// "step", "time", "tokens".
std::span<const CurveX> CurveXs();
const CurveX& FindCurveX(std::string_view name);  // REQUIRES: one of them

// What stands on the y axis.
struct CurveY {
  std::string_view name;    // for a flag
  std::string_view column;  // of metrics.csv
  std::string_view title;   // with the unit
  bool logarithmic = false;
  bool marked = false;  // few points: those of validations
  std::optional<double> (*of)(const MetricsRow& row) = nullptr;
  // Drawn thin beside it, where there is such a number.
  std::optional<double> (*beside)(const MetricsRow& row) = nullptr;
};
// "loss", "bits", "accuracy", "learning_rate", "gradient_norm", "speed".
std::span<const CurveY> CurveYs();
const CurveY& FindCurveY(std::string_view name);  // likewise

// The styles of runs that are in one picture.
std::vector<LineStyle> StylesOf(std::span<const RunRecord> runs);

// A line per run, and thin ones where `y` has them. Rows that lack a number are left
// out.
Chart ChartOfRuns(std::span<const RunRecord> runs, const CurveX& x, const CurveY& y);

// Loss over updates and over time, learning rate, gradient norm, tokens per second, and
// accuracy where a run has one.
std::vector<Figure> DrawRunCurves(std::span<const RunRecord> runs);

}  // namespace mnemon
