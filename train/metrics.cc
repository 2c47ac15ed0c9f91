// SPDX-License-Identifier: MIT
#include "train/metrics.h"

#include "absl/strings/str_format.h"

namespace mnemon {

std::string FormatMetricsRow(const MetricsRow& row) {
  const auto text = [](const std::optional<double>& number) {
    return number ? absl::StrFormat("%.9g", *number) : std::string();
  };
  return absl::StrFormat("%d,%.9g,%s,%.9g,%.9g,%s", row.step, row.loss,
                         text(row.validation), row.learning_rate, row.gradient_norm,
                         text(row.accuracy));
}

}  // namespace mnemon
