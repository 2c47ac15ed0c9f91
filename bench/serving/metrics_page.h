// SPDX-License-Identifier: MIT
// A server's /metrics page at one moment, and the change between two of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mnemon::serving {

// Cumulative counts by upper bound.
struct HistogramPage {
  std::map<double, double> buckets;
  double count = 0;
  double sum = 0;

  // Linear within the bucket; 0 without observations.
  double Quantile(double q) const;
  double mean() const { return count > 0 ? sum / count : 0; }
};

class MetricsPage {
 public:
  // GET http://127.0.0.1:port/metrics. UNAVAILABLE if that fails.
  static absl::StatusOr<MetricsPage> Fetch(int port);
  static MetricsPage Parse(const std::string& text);

  // Sum over the series of `name` that hold all `labels`, each as key="value".
  double Sum(const std::string& name,
             const std::vector<std::string>& labels = {}) const;
  // Whether there is such a series.
  bool Has(const std::string& name) const;
  // All series of histogram `name` that hold all `labels`, added.
  HistogramPage Histogram(const std::string& name,
                          const std::vector<std::string>& labels = {}) const;

 private:
  std::map<std::string, double> series_;  // "name{labels}" -> value
};

// Observations made after `before`, of the same histogram.
HistogramPage Since(const HistogramPage& before, HistogramPage now);

}  // namespace mnemon::serving
