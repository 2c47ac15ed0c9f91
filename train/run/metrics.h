// SPDX-License-Identifier: MIT
// Rows of metrics.csv: one per report. An interrupted and resumed run writes the same
// bytes as an undisturbed one, except in the last two columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mnemon {

struct MetricsRow {
  int64_t step = 0;
  double loss = 0;  // mean over the updates since the previous row
  std::optional<double> validation;
  std::optional<double> accuracy = {};  // of the validation
  double learning_rate = 0;
  double gradient_norm = 0;  // of the last update
  // Rows of earlier versions lack the rest.
  std::optional<int64_t> tokens = {};            // since the start of the run
  std::optional<double> seconds = {};            // likewise, resumptions included
  std::optional<double> tokens_per_second = {};  // since the previous row
};

// The first line of metrics.csv.
inline constexpr char kMetricsHeader[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy,tokens,seconds,"
    "tokens_per_second";

// The row without its line end. Numbers before `seconds` have 9 digits, enough for
// every bit of a float.
std::string FormatMetricsRow(const MetricsRow& row);

// Parses a line without its line end; nullopt if it is not a row.
std::optional<MetricsRow> ParseMetricsRow(std::string_view line);

// Adds the last three columns, empty, to the content of a metrics.csv of an earlier
// version that lacks them. Returns any other content unchanged.
std::string CurrentMetrics(std::string content);

}  // namespace mnemon
