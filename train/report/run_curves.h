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

// A quantity for the x axis.
struct CurveX {
  std::string_view name;    // for a flag
  std::string_view column;  // of metrics.csv
  std::optional<double> (*of)(const MetricsRow& row);
};
// "step", "time", "tokens".
std::span<const CurveX> CurveXs();
const CurveX& FindCurveX(std::string_view name);  // REQUIRES: one of them

// A quantity for the y axis.
struct CurveY {
  std::string_view name;    // for a flag
  std::string_view column;  // of metrics.csv
  std::string_view title;   // with the unit
  bool logarithmic = false;
  bool marked = false;  // few points, from validations
  std::optional<double> (*of)(const MetricsRow& row) = nullptr;
  // A second quantity, drawn as a thin line; null if there is none.
  std::optional<double> (*beside)(const MetricsRow& row) = nullptr;
};
// "loss", "bits", "accuracy", "learning_rate", "gradient_norm", "speed".
std::span<const CurveY> CurveYs();
const CurveY& FindCurveY(std::string_view name);  // REQUIRES: one of them

// The styles of the runs of one picture.
std::vector<LineStyle> StylesOf(std::span<const RunRecord> runs);

// A line per run, with a thin one if `y` has a second quantity. Rows that lack a number
// are left out.
Chart ChartOfRuns(std::span<const RunRecord> runs, const CurveX& x, const CurveY& y);

// Draws loss over updates and over time, learning rate, gradient norm, tokens per
// second, and accuracy if a run has it.
std::vector<Figure> DrawRunCurves(std::span<const RunRecord> runs);

}  // namespace mnemon
