// SPDX-License-Identifier: MIT
// Histograms without locks, for threads that must not wait: those of prometheus-cpp
// lock a mutex for every value.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

namespace mnemon {

// Safe for concurrent use.
class Histogram {
 public:
  // `bounds`: the inclusive upper bounds of the buckets, ascending. A last bucket, to
  // +Inf, is added.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void Observe(double value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    counts_[bucket - bounds_.begin()].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  // Contains everything that was observed before the call, and perhaps a part of what
  // is observed during it.
  prometheus::ClientMetric Collect() const {
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

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;  // one more than bounds_
  std::atomic<double> sum_{0};
};

// The histograms of one name. Collect is safe for concurrent use, but not with Add.
class HistogramFamily {
 public:
  HistogramFamily(std::string name, std::string help, std::vector<double> bounds)
      : name_(std::move(name)), help_(std::move(help)), bounds_(std::move(bounds)) {}

  // Valid as long as the family.
  Histogram& Add(const prometheus::Labels& labels) {
    return members_
        .emplace_back(std::piecewise_construct, std::forward_as_tuple(labels),
                      std::forward_as_tuple(bounds_))
        .second;
  }

  // One family.
  std::vector<prometheus::MetricFamily> Collect() const {
    prometheus::MetricFamily family{
        .name = name_, .help = help_, .type = prometheus::MetricType::Histogram};
    for (const auto& [labels, histogram] : members_) {
      auto& metric = family.metric.emplace_back(histogram.Collect());
      for (const auto& [name, value] : labels) metric.label.push_back({name, value});
    }
    return {std::move(family)};
  }

 private:
  const std::string name_;
  const std::string help_;
  const std::vector<double> bounds_;
  std::deque<std::pair<prometheus::Labels, Histogram>> members_;
};

}  // namespace mnemon
