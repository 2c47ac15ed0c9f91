// SPDX-License-Identifier: MIT
// A family of gauges or counters whose values are read when a page is made.
#pragma once

#include <utility>
#include <vector>

#include <prometheus/metric_family.h>

namespace mnemon {

// One thread.
class Readings {
 public:
  Readings(const char* name, const char* help,
           prometheus::MetricType type = prometheus::MetricType::Gauge) {
    family_.name = name;
    family_.help = help;
    family_.type = type;
  }
  void Add(std::vector<prometheus::ClientMetric::Label> labels, double value) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    (family_.type == prometheus::MetricType::Gauge ? metric.gauge.value
                                                   : metric.counter.value) = value;
  }
  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

}  // namespace mnemon
