// SPDX-License-Identifier: MIT
#include "train/run/run_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "base/files/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/config.h"
#include "model/families/families.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 32;
constexpr int64_t kMostConfigBytes = 1 << 20;

// All whole lines of `content` below `header` (empty: none).
template <class Row>
absl::StatusOr<std::vector<Row>> ReadRows(
    const std::string& path, std::string_view content, std::string_view header,
    const std::function<std::optional<Row>(std::string_view)>& parse) {
  std::vector<Row> rows;
  std::string_view rest = content;
  int64_t number = 0;
  for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    ++number;
    if (number == 1 && !header.empty()) {
      if (line == header) continue;
      return absl::DataLossError(StrCat(path, ", line 1: ", Quoted(line),
                                        " is not the header ", Quoted(header)));
    }
    const std::optional<Row> row = parse(line);
    if (!row) {
      return absl::DataLossError(
          StrCat(path, ", line ", number, ": ", Quoted(line), " is damaged"));
    }
    if (!rows.empty() && row->step <= rows.back().step) {
      return absl::DataLossError(StrCat(path, ", line ", number, ": update ", row->step,
                                        " does not come after update ",
                                        rows.back().step));
    }
    rows.push_back(*row);
  }
  return rows;
}

// The file's last change was the writing of its last row.
double Began(const std::string& path, double seconds) {
  struct stat state;
  if (::stat(path.c_str(), &state) != 0) return 0;
  return static_cast<double>(state.st_mtim.tv_sec) +
         static_cast<double>(state.st_mtim.tv_nsec) * 1e-9 - seconds;
}

// Does not read the weights, which curves do not need.
std::string ArchitectureOf(const std::string& path) {
  for (const char* const checkpoint : {"last", "best"}) {
    const absl::StatusOr<std::string> json =
        ReadFile(StrCat(path, "/", checkpoint, "/config.json"), kMostConfigBytes);
    if (!json.ok()) continue;
    const absl::StatusOr<ModelConfig> config = ParseConfig(*json);
    if (!config.ok()) continue;
    return TypedNameOf(*config);
  }
  return "";
}

absl::StatusOr<RunRecord> ReadRun(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(StrCat(Quoted(path), " is not a run directory"));
  }
  const auto file = [&](const char* name) { return StrCat(path, "/", name); };
  RunRecord run;
  run.path = path;
  run.architecture = ArchitectureOf(path);
  absl::StatusOr<std::string> metrics = ReadFile(file(kMetricsName), kMostBytes);
  if (absl::IsNotFound(metrics.status())) {
    return absl::NotFoundError(
        StrCat(Quoted(path), " has no ", kMetricsName, ": it is not a run directory"));
  }
  MNEMON_RETURN_IF_ERROR(metrics.status());
  MNEMON_ASSIGN_OR_RETURN(
      run.metrics,
      ReadRows<MetricsRow>(file(kMetricsName), CurrentMetrics(*std::move(metrics)),
                           kMetricsHeader, ParseMetricsRow));
  absl::StatusOr<std::string> samples = ReadFile(file(kSamplesName), kMostBytes);
  if (absl::IsNotFound(samples.status())) samples = "";
  MNEMON_RETURN_IF_ERROR(samples.status());
  MNEMON_ASSIGN_OR_RETURN(run.samples, ReadRows<SampleRow>(file(kSamplesName), *samples,
                                                           "", ParseSampleRow));
  run.began = Began(file(kMetricsName), run.Seconds());
  return run;
}

std::string FolderOf(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

// `name` with other characters replaced, and not one of `taken`.
std::string FileName(const std::string& name, std::set<std::string>& taken) {
  std::string folder;
  for (const char c : name) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
                       c == '_' || (c == '.' && !folder.empty());
    folder += plain ? c : '_';
  }
  if (folder.empty()) folder = "run";
  std::string free = folder;
  for (int i = 2; !taken.insert(free).second; ++i) free = StrCat(folder, "-", i);
  return free;
}

}  // namespace

double RunRecord::SecondsAt(int64_t step) const {
  auto at = std::upper_bound(
      metrics.begin(), metrics.end(), step,
      [](int64_t update, const MetricsRow& row) { return update < row.step; });
  while (at != metrics.begin()) {
    --at;
    if (at->seconds) return *at->seconds;
  }
  return 0;
}

absl::StatusOr<std::vector<RunRecord>> ReadRuns(const std::vector<std::string>& paths) {
  std::map<std::string, int> times;
  for (const std::string& path : paths) ++times[FolderOf(path)];
  std::set<std::string> taken;
  std::vector<RunRecord> runs;
  for (const std::string& path : paths) {
    MNEMON_ASSIGN_OR_RETURN(RunRecord run, ReadRun(path));
    const std::string folder = FolderOf(path);
    run.name = times[folder] == 1 ? folder : path;
    run.folder = FileName(run.name, taken);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace mnemon
