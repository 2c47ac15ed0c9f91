// SPDX-License-Identifier: MIT
// Rows of metrics.csv: one per report, the same bytes for an interrupted and resumed
// run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mnemon {

struct MetricsRow {
  int64_t step = 0;
  double loss = 0;  // mean over the updates since the row before
  std::optional<double> validation;
  std::optional<double> accuracy = {};  // of the validation
  double learning_rate = 0;
  double gradient_norm = 0;  // of the last update
};

// The first line of metrics.csv.
inline constexpr char kMetricsHeader[] =
    "step,loss,validation,learning_rate,gradient_norm,accuracy";

// The row without its line end; numbers have 9 digits, which is every bit of a float.
std::string FormatMetricsRow(const MetricsRow& row);

}  // namespace mnemon
