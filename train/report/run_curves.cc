// SPDX-License-Identifier: MIT
#include "train/report/run_curves.h"

#include <algorithm>
#include <map>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace mnemon {
namespace {

using Row = MetricsRow;
using Number = std::optional<double>;

Number Bits(const Number& nats) {
  if (!nats) return std::nullopt;
  return *nats / std::numbers::ln2;
}

Number AsDouble(const std::optional<int64_t>& count) {
  if (!count) return std::nullopt;
  return static_cast<double>(*count);
}

constexpr CurveX kXs[] = {
    {"step", "step", [](const Row& row) -> Number { return row.step; }},
    {"time", "seconds", [](const Row& row) { return row.seconds; }},
    {"tokens", "tokens", [](const Row& row) { return AsDouble(row.tokens); }},
};

constexpr CurveY kYs[] = {
    {.name = "loss",
     .column = "loss",
     .title = "Loss in nats: training thin, validation with marks",
     .marked = true,
     .of = [](const Row& row) { return row.validation; },
     .beside = [](const Row& row) -> Number { return row.loss; }},
    {.name = "bits",
     .column = "loss",
     .title = "Loss in bits: training thin, validation with marks",
     .marked = true,
     .of = [](const Row& row) { return Bits(row.validation); },
     .beside = [](const Row& row) { return Bits(row.loss); }},
    {.name = "accuracy",
     .column = "accuracy",
     .title = "Accuracy of the validation, 0 to 1",
     .marked = true,
     .of = [](const Row& row) { return row.accuracy; }},
    {.name = "learning_rate",
     .column = "learning_rate",
     .title = "Learning rate",
     .of = [](const Row& row) -> Number { return row.learning_rate; }},
    {.name = "gradient_norm",
     .column = "gradient_norm",
     .title = "Gradient norm before clipping, log scale",
     .logarithmic = true,
     .of = [](const Row& row) -> Number { return row.gradient_norm; }},
    {.name = "speed",
     .column = "tokens_per_second",
     .title = "Training speed in tokens/s",
     .of = [](const Row& row) { return row.tokens_per_second; }},
};

template <class Axis>
const Axis& Named(std::span<const Axis> axes, std::string_view name) {
  const auto found = std::find_if(
      axes.begin(), axes.end(), [name](const Axis& axis) { return axis.name == name; });
  MNEMON_CHECK(found != axes.end());
  return *found;
}

// Time has the unit that suits the longest run.
struct Unit {
  std::string label;
  double size = 1;
};

Unit UnitOf(std::span<const RunRecord> runs, const CurveX& x) {
  if (x.name == "step") return {"updates"};
  if (x.name == "tokens") return {"tokens seen"};
  double longest = 0;
  for (const RunRecord& run : runs) longest = std::max(longest, run.Seconds());
  if (longest < 180) return {"seconds of training"};
  if (longest < 3 * 3600) return {"minutes of training", 60};
  return {"hours of training", 3600};
}

std::vector<ChartPoint> PointsOf(const RunRecord& run, const CurveX& x, double unit,
                                 Number (*y)(const Row& row)) {
  std::vector<ChartPoint> points;
  for (const Row& row : run.metrics) {
    const Number at = x.of(row), value = y(row);
    if (at && value) points.push_back({*at / unit, *value});
  }
  return points;
}

// A run's directory does not state its architecture, but its name often does.
std::string LabelOf(const RunRecord& run) {
  if (run.name.find(run.architecture) != std::string::npos) return run.name;
  return StrCat(run.name, " (", run.architecture, ")");
}

}  // namespace

std::span<const CurveX> CurveXs() { return kXs; }
std::span<const CurveY> CurveYs() { return kYs; }
const CurveX& FindCurveX(std::string_view name) { return Named(CurveXs(), name); }
const CurveY& FindCurveY(std::string_view name) { return Named(CurveYs(), name); }

std::vector<LineStyle> StylesOf(std::span<const RunRecord> runs) {
  std::map<std::string, size_t> before;
  std::vector<LineStyle> styles;
  for (const RunRecord& run : runs) {
    styles.push_back(StyleOfArchitecture(run.architecture, before[run.architecture]++));
  }
  return styles;
}

Chart ChartOfRuns(std::span<const RunRecord> runs, const CurveX& x, const CurveY& y) {
  const Unit unit = UnitOf(runs, x);
  const std::vector<LineStyle> styles = StylesOf(runs);
  Chart chart{.title = std::string(y.title),
              .x_label = unit.label,
              .logarithmic = y.logarithmic};
  for (size_t i = 0; y.beside != nullptr && i < runs.size(); ++i) {
    chart.series.push_back({.points = PointsOf(runs[i], x, unit.size, y.beside),
                            .style = styles[i],
                            .faint = true});
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back({.name = LabelOf(runs[i]),
                            .points = PointsOf(runs[i], x, unit.size, y.of),
                            .style = styles[i],
                            .marked = y.marked});
  }
  return chart;
}

std::vector<Figure> DrawRunCurves(std::span<const RunRecord> runs) {
  std::vector<Figure> figures;
  const auto add = [&](const char* name, std::string_view x, std::string_view y) {
    const Chart chart = ChartOfRuns(runs, FindCurveX(x), FindCurveY(y));
    figures.push_back({.name = name, .svg = DrawChart(chart)});
  };
  add("loss", "step", "loss");
  add("loss-over-time", "time", "loss");
  const bool accuracy = std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    return std::any_of(run.metrics.begin(), run.metrics.end(),
                       [](const Row& row) { return row.accuracy.has_value(); });
  });
  if (accuracy) add("accuracy", "step", "accuracy");
  add("learning-rate", "step", "learning_rate");
  add("gradient-norm", "step", "gradient_norm");
  add("speed", "step", "speed");
  return figures;
}

}  // namespace mnemon
