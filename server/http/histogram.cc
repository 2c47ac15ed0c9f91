// SPDX-License-Identifier: MIT
#include "server/http/histogram.h"

#include <algorithm>
#include <limits>

namespace mnemon {

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[bucket - bounds_.begin()].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

prometheus::ClientMetric Histogram::Collect() const {
  prometheus::ClientMetric metric;
  uint64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i].load(std::memory_order_relaxed);
    const double bound =
        i < bounds_.size() ? bounds_[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back(
        {.cumulative_count = below, .upper_bound = bound});
  }
  // From the same counts, so that the buckets and the count always agree.
  metric.histogram.sample_count = below;
  metric.histogram.sample_sum = sum_.load(std::memory_order_relaxed);
  return metric;
}

HistogramFamily::HistogramFamily(std::string name, std::string help,
                                 std::vector<double> bounds)
    : name_(std::move(name)), help_(std::move(help)), bounds_(std::move(bounds)) {}

Histogram& HistogramFamily::Add(const prometheus::Labels& labels) {
  return members_
      .emplace_back(std::piecewise_construct, std::forward_as_tuple(labels),
                    std::forward_as_tuple(bounds_))
      .second;
}

std::vector<prometheus::MetricFamily> HistogramFamily::Collect() const {
  prometheus::MetricFamily family;
  family.name = name_;
  family.help = help_;
  family.type = prometheus::MetricType::Histogram;
  for (const auto& [labels, histogram] : members_) {
    prometheus::ClientMetric& metric = family.metric.emplace_back(histogram.Collect());
    for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  }
  return {std::move(family)};
}

}  // namespace mnemon
