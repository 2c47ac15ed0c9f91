// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "train/commands/commands.h"
#include "train/report/chart.h"
#include "train/report/run_curves.h"
#include "train/report/svg_text.h"
#include "train/run/run_record.h"

namespace mnemon {
namespace {

constexpr double kWidth = 720;
constexpr double kPlotHeight = 340;
constexpr size_t kMostRuns = 24;  // more could not be told apart

struct PlotFlags {
  std::vector<std::string> runs;
  std::string out;
  std::string x = "step";
  std::string y = "loss";
};

template <class Axis>
std::vector<std::string> Names(std::span<const Axis> axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.emplace_back(axis.name);
  return names;
}

bool Any(const RunRecord& run, std::optional<double> (*of)(const MetricsRow& row)) {
  return of != nullptr &&
         std::any_of(run.metrics.begin(), run.metrics.end(),
                     [of](const MetricsRow& row) { return of(row).has_value(); });
}

absl::Status CheckDrawable(const RunRecord& run, const CurveX& x, const CurveY& y) {
  const std::string file = StrCat(run.path, "/", kMetricsName);
  if (run.metrics.empty()) {
    return absl::FailedPreconditionError(
        StrCat(file, " has no rows yet: the run has not come to its first report"));
  }
  if (!Any(run, x.of)) {
    return absl::FailedPreconditionError(
        StrCat(file, " has nothing in column ", x.column,
               ", which an earlier version did not record: use --x step"));
  }
  if (!Any(run, y.of) && !Any(run, y.beside)) {
    return absl::FailedPreconditionError(StrCat(
        file, " has nothing in column ", y.column,
        y.name == "accuracy" ? ", which is recorded of drawn tasks alone: use --y loss"
                             : ", which an earlier version did not record"));
  }
  return absl::OkStatus();
}

// What the runs have in common comes first.
std::string TitleOf(const std::vector<RunRecord>& runs, const CurveY& y) {
  const std::string& architecture = runs.front().architecture;
  const bool same = std::all_of(runs.begin(), runs.end(), [&](const RunRecord& run) {
    return run.architecture == architecture;
  });
  return same && !architecture.empty() ? StrCat(architecture, ": ", y.title)
                                       : std::string(y.title);
}

absl::Status RunPlot(const PlotFlags& flags) {
  if (flags.runs.size() > kMostRuns) {
    return UsageError(StrCat("runs: ", flags.runs.size(),
                             " directories; a picture shows at most ", kMostRuns));
  }
  const CurveX& x = FindCurveX(flags.x);
  const CurveY& y = FindCurveY(flags.y);
  MNEMON_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, ReadRuns(flags.runs));
  for (const RunRecord& run : runs) MNEMON_RETURN_IF_ERROR(CheckDrawable(run, x, y));
  Chart chart = ChartOfRuns(runs, x, y);
  chart.title = TitleOf(runs, y);
  chart.width = kWidth;
  chart.plot_height = kPlotHeight;
  return WriteFileDurably(flags.out, SvgFile(DrawChart(chart)));
}

}  // namespace

void AddPlotCommand(CommandLine& line) {
  auto flags = std::make_shared<PlotFlags>();
  Command command = line.AddCommand(
      "plot", "Draws the curves of runs as one picture, an SVG file.",
      {"mnemon-train plot runs/a runs/b --out curves.svg",
       "mnemon-train plot runs/a runs/b --x time --out curves.svg    # or --x tokens",
       "mnemon-train plot run --y bits --out bits.svg"},
      [flags] { return RunPlot(*flags); });
  command.Add("runs", &flags->runs, "Directories of runs").Required();
  command.Add("--out", &flags->out, "SVG file to write").Required();
  command
      .Add("--x", &flags->x,
           "step: updates; time: hours, minutes or seconds of training; tokens: those "
           "seen")
      .OneOf(Names(CurveXs()));
  command
      .Add("--y", &flags->y,
           "loss: training and validation, in nats; bits: the same in bits; or a "
           "column of metrics.csv; speed: tokens per second")
      .OneOf(Names(CurveYs()));
}

}  // namespace mnemon
