// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/files/file.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/sequence/runtime.h"
#include "train/commands/commands.h"
#include "train/report/memory_figures.h"
#include "train/report/palette.h"
#include "train/report/report_page.h"
#include "train/report/run_curves.h"
#include "train/report/run_events.h"
#include "train/report/svg_text.h"
#include "train/run/run_record.h"

namespace mnemon {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string out;
  std::string svg;
  std::string tensorboard;
};

constexpr char kNothing[] = "\u2013";

std::string TimeText(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 60) return absl::StrFormat("%.1f s", seconds);
  if (s < 3600) return absl::StrFormat("%d min %02d s", s / 60, s % 60);
  return absl::StrFormat("%d h %02d min", s / 3600, s / 60 % 60);
}

std::string CountText(int64_t count) {
  std::string digits = StrCat(count);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ' ');
  }
  return digits;
}

// The middle one tells more than a mean over pauses of the machine.
std::string SpeedText(const RunRecord& run) {
  std::vector<double> speeds;
  for (const MetricsRow& row : run.metrics) {
    if (row.tokens_per_second) speeds.push_back(*row.tokens_per_second);
  }
  if (speeds.empty()) return kNothing;
  const auto middle = speeds.begin() + static_cast<int64_t>(speeds.size() / 2);
  std::nth_element(speeds.begin(), middle, speeds.end());
  return CountText(std::llround(*middle));
}

const std::vector<std::string>& FactNames() {
  static const auto* const names = new std::vector<std::string>{
      "architecture", "parameters", "updates", "best validation loss",
      "at update",    "time",       "tokens/s"};
  return *names;
}

std::vector<std::string> FactsOf(const RunRecord& run, const MemoryFigures& memory) {
  const MetricsRow* best = nullptr;
  for (const MetricsRow& row : run.metrics) {
    if (!row.validation || !std::isfinite(*row.validation)) continue;
    if (best == nullptr || *row.validation < *best->validation) best = &row;
  }
  return {memory.architecture.empty() ? kNothing : memory.architecture,
          memory.parameters == 0 ? kNothing : CountText(memory.parameters),
          run.metrics.empty() ? "0" : CountText(run.metrics.back().step),
          best == nullptr ? kNothing : absl::StrFormat("%.4f", *best->validation),
          best == nullptr ? kNothing : CountText(best->step),
          run.Seconds() == 0 ? kNothing : TimeText(run.Seconds()),
          SpeedText(run)};
}

RunSection MakeSection(const RunRecord& run, const LineStyle& style) {
  MemoryFigures memory;
  const absl::Status drawn = RunTensors([&] {
    memory = DrawMemoryFigures(run.path);
    return memory.fault;
  });
  RunSection section{.name = run.name,
                     .path = run.path,
                     .colour = std::string(style.colour),
                     .facts = FactsOf(run, memory),
                     .samples = run.samples,
                     .groups = std::move(memory.groups)};
  if (!drawn.ok()) {
    section.groups.push_back({.title = "Memory",
                              .text = StrCat("There are no pictures of the memory: ",
                                             std::string(drawn.message())),
                              .figures = {}});
  }
  return section;
}

absl::Status WriteFigures(const std::string& directory,
                          const std::vector<Figure>& figures) {
  for (const Figure& figure : figures) {
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(StrCat(directory, "/", figure.name, ".svg"),
                                            SvgFile(figure.svg)));
  }
  return absl::OkStatus();
}

absl::Status WritePictures(const std::string& directory, const ReportPage& page,
                           const std::vector<RunRecord>& runs) {
  MNEMON_RETURN_IF_ERROR(MakeDirectories(directory));
  MNEMON_RETURN_IF_ERROR(WriteFigures(directory, page.curves));
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string below = StrCat(directory, "/", runs[i].folder);
    MNEMON_RETURN_IF_ERROR(MakeDirectories(below));
    for (const FigureGroup& group : page.runs[i].groups) {
      MNEMON_RETURN_IF_ERROR(WriteFigures(below, group.figures));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteEvents(const std::string& directory,
                         const std::vector<RunRecord>& runs) {
  for (const RunRecord& run : runs) {
    const std::string below = StrCat(directory, "/", run.folder);
    MNEMON_RETURN_IF_ERROR(MakeDirectories(below));
    // The same name each time: an older file of the run would be shown beside it.
    MNEMON_RETURN_IF_ERROR(WriteFileDurably(
        StrCat(below, "/events.out.tfevents.mnemon"), FormatRunEvents(run)));
  }
  return absl::OkStatus();
}

absl::Status RunReport(const ReportFlags& flags) {
  if (flags.out.empty() && flags.svg.empty() && flags.tensorboard.empty()) {
    return UsageError("nothing to write: name --out, --svg or --tensorboard");
  }
  MNEMON_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, ReadRuns(flags.runs));
  if (!flags.tensorboard.empty()) {
    MNEMON_RETURN_IF_ERROR(WriteEvents(flags.tensorboard, runs));
  }
  if (flags.out.empty() && flags.svg.empty()) return absl::OkStatus();
  InitTensorRuntime(1);
  ReportPage page{.facts = FactNames(), .curves = DrawRunCurves(runs), .runs = {}};
  const std::vector<LineStyle> styles = StylesOf(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    page.runs.push_back(MakeSection(runs[i], styles[i]));
  }
  if (!flags.svg.empty()) {
    MNEMON_RETURN_IF_ERROR(WritePictures(flags.svg, page, runs));
  }
  if (flags.out.empty()) return absl::OkStatus();
  return WriteFileDurably(flags.out, FormatReportPage(page));
}

}  // namespace

void AddReportCommand(CommandLine& line) {
  auto flags = std::make_shared<ReportFlags>();
  Command command = line.AddCommand(
      "report", "Shows runs on a page: curves, samples, and what the memory does.",
      {"mnemon-train report runs/a runs/b --out report.html",
       "mnemon-train report run --svg pictures",
       "mnemon-train report runs/a runs/b --tensorboard events"},
      [flags] { return RunReport(*flags); });
  command.Add("runs", &flags->runs, "Directories of runs").Required();
  command.Add("--out", &flags->out, "HTML file to write").Default("none");
  command.Add("--svg", &flags->svg, "Directory for each picture as an SVG file")
      .Default("none");
  command
      .Add("--tensorboard", &flags->tensorboard,
           "Directory for event files of TensorBoard, in a folder per run")
      .Default("none");
}

}  // namespace mnemon
