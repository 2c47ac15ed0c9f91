// SPDX-License-Identifier: MIT
#include "train/run_record.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/ascii.h"
#include "base/file.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace mnemon {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = int64_t{1} << 32;

std::vector<std::string_view> Cells(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t end; (end = line.find(',')) != line.npos; line.remove_prefix(end + 1)) {
    cells.push_back(line.substr(0, end));
  }
  cells.push_back(line);
  return cells;
}

template <class Number>
bool Read(std::string_view cell, Number& number) {
  const auto [end, error] =
      std::from_chars(cell.data(), cell.data() + cell.size(), number);
  return error == std::errc() && end == cell.data() + cell.size();
}

bool Read(std::string_view cell, std::optional<double>& number) {
  if (cell.empty()) return true;
  return Read(cell, number.emplace());
}

std::optional<MetricsRow> ParseMetricsRow(std::string_view line) {
  const std::vector<std::string_view> cells = Cells(line);
  MetricsRow row;
  const bool read = cells.size() == 6 && Read(cells[0], row.step) &&
                    Read(cells[1], row.loss) && Read(cells[2], row.validation) &&
                    Read(cells[3], row.learning_rate) &&
                    Read(cells[4], row.gradient_norm) && Read(cells[5], row.accuracy);
  return read ? std::optional(row) : std::nullopt;
}

std::optional<SpeedRow> ParseSpeedRow(std::string_view line) {
  const std::vector<std::string_view> cells = Cells(line);
  SpeedRow row;
  const bool read = cells.size() == 3 && Read(cells[0], row.step) &&
                    Read(cells[1], row.seconds) &&
                    Read(cells[2], row.tokens_per_second) &&
                    std::isfinite(row.seconds) && std::isfinite(row.tokens_per_second);
  return read ? std::optional(row) : std::nullopt;
}

// All whole lines below `header` (empty: none).
template <class Row>
absl::StatusOr<std::vector<Row>> ReadRows(
    const std::string& path, std::string_view header,
    const std::function<std::optional<Row>(std::string_view)>& parse) {
  MNEMON_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMostBytes));
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
                                        " does not come behind update ",
                                        rows.back().step));
    }
    rows.push_back(*row);
  }
  return rows;
}

template <class Row>
absl::StatusOr<std::vector<Row>> ReadRowsIfAny(
    const std::string& path, std::string_view header,
    const std::function<std::optional<Row>(std::string_view)>& parse) {
  absl::StatusOr<std::vector<Row>> rows = ReadRows<Row>(path, header, parse);
  if (absl::IsNotFound(rows.status())) return std::vector<Row>();
  return rows;
}

// The last row was written when the file was changed last.
double Began(const std::string& path, double seconds) {
  struct stat state;
  if (::stat(path.c_str(), &state) != 0) return 0;
  return static_cast<double>(state.st_mtim.tv_sec) +
         static_cast<double>(state.st_mtim.tv_nsec) * 1e-9 - seconds;
}

absl::StatusOr<RunRecord> ReadRun(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    return absl::NotFoundError(StrCat(path, " is no directory of a run"));
  }
  const auto file = [&](const char* name) { return StrCat(path, "/", name); };
  RunRecord run;
  run.path = path;
  absl::StatusOr<std::vector<MetricsRow>> metrics =
      ReadRows<MetricsRow>(file(kMetricsName), kMetricsHeader, ParseMetricsRow);
  if (absl::IsNotFound(metrics.status())) {
    return absl::NotFoundError(
        StrCat(path, " has no ", kMetricsName, ": it is no directory of a run"));
  }
  MNEMON_RETURN_IF_ERROR(metrics.status());
  run.metrics = *std::move(metrics);
  MNEMON_ASSIGN_OR_RETURN(
      run.speed,
      ReadRowsIfAny<SpeedRow>(file(kSpeedName), kSpeedHeader, ParseSpeedRow));
  MNEMON_ASSIGN_OR_RETURN(
      run.samples, ReadRowsIfAny<SampleRow>(file(kSamplesName), "", ParseSampleRow));
  run.began = run.speed.empty() ? Began(file(kMetricsName), 0)
                                : Began(file(kSpeedName), run.speed.back().seconds);
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
  const auto behind =
      std::upper_bound(speed.begin(), speed.end(), step,
                       [](int64_t at, const SpeedRow& row) { return at < row.step; });
  return behind == speed.begin() ? 0 : std::prev(behind)->seconds;
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
