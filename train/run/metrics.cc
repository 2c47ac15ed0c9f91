// SPDX-License-Identifier: MIT
#include "train/run/metrics.h"

#include <charconv>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace mnemon {
namespace {

constexpr std::string_view kHeaderBefore =
    "step,loss,validation,learning_rate,gradient_norm,accuracy\n";

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

template <class Number>
bool Read(std::string_view cell, std::optional<Number>& number) {
  if (cell.empty()) return true;
  return Read(cell, number.emplace());
}

bool Finite(const std::optional<double>& number) {
  return !number || std::isfinite(*number);
}

}  // namespace

std::string FormatMetricsRow(const MetricsRow& row) {
  const auto text = [](const std::optional<double>& number) {
    return number ? absl::StrFormat("%.9g", *number) : std::string();
  };
  return absl::StrFormat(
      "%d,%.9g,%s,%.9g,%.9g,%s,%s,%s,%s", row.step, row.loss, text(row.validation),
      row.learning_rate, row.gradient_norm, text(row.accuracy),
      row.tokens ? StrCat(*row.tokens) : "",
      row.seconds ? absl::StrFormat("%.3f", *row.seconds) : "",
      row.tokens_per_second ? absl::StrFormat("%.1f", *row.tokens_per_second) : "");
}

std::optional<MetricsRow> ParseMetricsRow(std::string_view line) {
  const std::vector<std::string_view> cells = Cells(line);
  MetricsRow row;
  const bool read = cells.size() == 9 && Read(cells[0], row.step) &&
                    Read(cells[1], row.loss) && Read(cells[2], row.validation) &&
                    Read(cells[3], row.learning_rate) &&
                    Read(cells[4], row.gradient_norm) && Read(cells[5], row.accuracy) &&
                    Read(cells[6], row.tokens) && Read(cells[7], row.seconds) &&
                    Read(cells[8], row.tokens_per_second);
  const bool sane = read && row.tokens.value_or(0) >= 0 && Finite(row.seconds) &&
                    Finite(row.tokens_per_second);
  return sane ? std::optional(row) : std::nullopt;
}

std::string CurrentMetrics(std::string content) {
  if (!content.starts_with(kHeaderBefore)) return content;
  std::string current = StrCat(kMetricsHeader, "\n");
  std::string_view rest = std::string_view(content).substr(kHeaderBefore.size());
  for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    current.append(rest.substr(0, end)).append(",,,\n");
  }
  return current.append(rest);
}

}  // namespace mnemon
