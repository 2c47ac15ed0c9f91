// SPDX-License-Identifier: MIT
#include "bench/serving/metrics_page.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/strings.h"
#include "bench/serving/http_get.h"

namespace mnemon::serving {
namespace {

bool Matches(const std::string& series, const std::string& name,
             const std::vector<std::string>& labels) {
  if (series.rfind(name, 0) != 0) return false;
  if (series.size() > name.size() && series[name.size()] != '{') return false;
  return std::all_of(labels.begin(), labels.end(), [&](const std::string& label) {
    return series.find(label) != std::string::npos;
  });
}

double BoundOf(const std::string& series) {
  const size_t at = series.find("le=\"");
  if (at == std::string::npos) return std::numeric_limits<double>::infinity();
  const std::string bound = series.substr(at + 4);
  return bound[0] == '+' ? std::numeric_limits<double>::infinity()
                         : std::atof(bound.c_str());
}

}  // namespace

double HistogramPage::Quantile(double q) const {
  const double rank = q * count;
  double below = 0, bound_below = 0;
  for (const auto& [bound, cumulative] : buckets) {
    if (cumulative >= rank && cumulative > below) {
      if (bound == std::numeric_limits<double>::infinity()) return bound_below;
      return bound_below +
             (bound - bound_below) * (rank - below) / (cumulative - below);
    }
    below = cumulative;
    bound_below = bound;
  }
  return 0;
}

absl::StatusOr<MetricsPage> MetricsPage::Fetch(int port) {
  const HttpAnswer answer = HttpGet(port, "/metrics");
  if (answer.code != 200) {
    return absl::UnavailableError(StrCat("no /metrics: ", answer.code));
  }
  return Parse(answer.body);
}

MetricsPage MetricsPage::Parse(const std::string& text) {
  MetricsPage page;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    page.series_[line.substr(0, space)] = std::atof(line.c_str() + space + 1);
  }
  return page;
}

double MetricsPage::Sum(const std::string& name,
                        const std::vector<std::string>& labels) const {
  double sum = 0;
  for (const auto& [series, value] : series_) {
    if (Matches(series, name, labels)) sum += value;
  }
  return sum;
}

bool MetricsPage::Has(const std::string& name) const {
  return std::any_of(series_.begin(), series_.end(),
                     [&](const auto& one) { return Matches(one.first, name, {}); });
}

HistogramPage MetricsPage::Histogram(const std::string& name,
                                     const std::vector<std::string>& labels) const {
  HistogramPage histogram{.count = Sum(name + "_count", labels),
                          .sum = Sum(name + "_sum", labels)};
  for (const auto& [series, value] : series_) {
    if (Matches(series, name + "_bucket", labels)) {
      histogram.buckets[BoundOf(series)] += value;
    }
  }
  return histogram;
}

HistogramPage Since(const HistogramPage& before, HistogramPage now) {
  now.count -= before.count;
  now.sum -= before.sum;
  for (const auto& [bound, count] : before.buckets) now.buckets[bound] -= count;
  return now;
}

}  // namespace mnemon::serving
