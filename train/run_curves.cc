// SPDX-License-Identifier: MIT
#include "train/run_curves.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "train/chart.h"

namespace mnemon {
namespace {

using PointsOf = std::function<std::vector<ChartPoint>(const RunRecord&)>;

// A line per run.
Chart ChartOf(std::span<const RunRecord> runs, Chart chart, bool marked,
              const PointsOf& points) {
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.series.push_back({.name = runs[i].name,
                            .points = points(runs[i]),
                            .colour = i,
                            .marked = marked});
  }
  return chart;
}

PointsOf OverUpdates(const std::function<std::optional<double>(const MetricsRow&)>& y) {
  return [y](const RunRecord& run) {
    std::vector<ChartPoint> points;
    for (const MetricsRow& row : run.metrics) {
      if (const std::optional<double> value = y(row)) {
        points.push_back({static_cast<double>(row.step), *value});
      }
    }
    return points;
  };
}

std::optional<double> Validation(const MetricsRow& row) { return row.validation; }

Chart LossOverUpdates(std::span<const RunRecord> runs) {
  Chart chart = ChartOf(runs,
                        {.title = "Loss in nats: training thin, validation with marks",
                         .x_label = "updates"},
                        /*marked=*/false, OverUpdates([](const MetricsRow& row) {
                          return std::optional(row.loss);
                        }));
  for (ChartSeries& series : chart.series) series.name.clear();
  const Chart validation = ChartOf(runs, {}, /*marked=*/true, OverUpdates(Validation));
  chart.series.insert(chart.series.end(), validation.series.begin(),
                      validation.series.end());
  return chart;
}

struct TimeUnit {
  const char* name;
  double seconds;
};

TimeUnit UnitFor(std::span<const RunRecord> runs) {
  double longest = 0;
  for (const RunRecord& run : runs) {
    if (!run.speed.empty()) longest = std::max(longest, run.speed.back().seconds);
  }
  if (longest < 180) return {"seconds", 1};
  if (longest < 3 * 3600) return {"minutes", 60};
  return {"hours", 3600};
}

Chart LossOverTime(std::span<const RunRecord> runs) {
  const TimeUnit unit = UnitFor(runs);
  return ChartOf(
      runs,
      {.title = "Validation loss in nats over time",
       .x_label = StrCat(unit.name, " since the start of the run")},
      /*marked=*/true, [unit](const RunRecord& run) {
        std::vector<ChartPoint> points;
        if (run.speed.empty()) return points;
        for (const MetricsRow& row : run.metrics) {
          if (!row.validation) continue;
          points.push_back({run.SecondsAt(row.step) / unit.seconds, *row.validation});
        }
        return points;
      });
}

Chart Speed(std::span<const RunRecord> runs) {
  return ChartOf(
      runs, {.title = "Training speed in tokens/s", .x_label = "updates"},
      /*marked=*/false, [](const RunRecord& run) {
        std::vector<ChartPoint> points;
        for (const SpeedRow& row : run.speed) {
          points.push_back({static_cast<double>(row.step), row.tokens_per_second});
        }
        return points;
      });
}

}  // namespace

std::vector<Figure> DrawRunCurves(std::span<const RunRecord> runs) {
  std::vector<Figure> figures = {
      {.name = "loss", .svg = DrawChart(LossOverUpdates(runs))},
      {.name = "loss-over-time", .svg = DrawChart(LossOverTime(runs))}};
  const auto add = [&](const char* name, Chart chart, bool marked, auto number) {
    figures.push_back({.name = name,
                       .svg = DrawChart(ChartOf(runs, std::move(chart), marked,
                                                OverUpdates(number)))});
  };
  const bool accuracy = std::any_of(runs.begin(), runs.end(), [](const RunRecord& run) {
    return std::any_of(run.metrics.begin(), run.metrics.end(),
                       [](const MetricsRow& row) { return row.accuracy.has_value(); });
  });
  if (accuracy) {
    add("accuracy",
        {.title = "Accuracy of the validation, 0 to 1", .x_label = "updates"}, true,
        [](const MetricsRow& row) { return row.accuracy; });
  }
  add("learning-rate", {.title = "Learning rate", .x_label = "updates"}, false,
      [](const MetricsRow& row) { return std::optional(row.learning_rate); });
  add("gradient-norm",
      {.title = "Gradient norm before clipping, log scale",
       .x_label = "updates",
       .logarithmic = true},
      false, [](const MetricsRow& row) { return std::optional(row.gradient_norm); });
  figures.push_back({.name = "speed", .svg = DrawChart(Speed(runs))});
  return figures;
}

}  // namespace mnemon
