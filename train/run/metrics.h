// SPDX-License-Identifier: MIT
// Rows of metrics.csv: one per report. All but the last two columns have the same bytes
// for an interrupted and resumed run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mnemon {

struct MetricsRow {
  int64_t step = 0;
  double loss = 0;  // mean over the updates since the row before
  std::optional<double> validation;
  std::optional<double> accuracy = {};  // of the validation
  double learning_rate = 0;
  double gradient_norm = 0;  // of the last update
  // What follows is missing in rows that an earlier version wrote.
  std::optional<int64_t> tokens = {};            // seen since the start of the run
  std::optional<double> seconds = {};            // likewise, over all resumptions
  std::optional<double> tokens_per_second = {};  // of the updates since the row before
};

// The first line of metrics.csv.
inline constexpr char kMetricsHeader[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy,tokens,seconds,"
    "tokens_per_second";

// The row without its line end; numbers before `seconds` have 9 digits, which is every
// bit of a float.
std::string FormatMetricsRow(const MetricsRow& row);

// The row of a line without its line end; nullopt where it is none.
std::optional<MetricsRow> ParseMetricsRow(std::string_view line);

// The content of a metrics.csv. That of an earlier version, without the last three
// columns, gets them, empty; any other is returned as it is.
std::string CurrentMetrics(std::string content);

}  // namespace mnemon
