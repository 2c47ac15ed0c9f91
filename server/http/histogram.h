// SPDX-License-Identifier: MIT
// Histograms without locks for threads that must not wait: those of prometheus-cpp lock
// a mutex for every value.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

namespace mnemon {

// Safe for concurrent use.
class Histogram {
 public:
  // `bounds` are the upper ends of the buckets, ascending, each part of its bucket; the
  // last bucket, +Inf, is added.
  explicit Histogram(std::vector<double> bounds);

  // Without a lock.
  void Observe(double value);
  // Contains all that was observed before the call, and perhaps a part of what is
  // observed during it.
  prometheus::ClientMetric Collect() const;

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;  // one more than bounds_
  std::atomic<double> sum_{0};
};

// The histograms of one name. Add before others use it; Collect is safe for concurrent
// use.
class HistogramFamily final : public prometheus::Collectable {
 public:
  HistogramFamily(std::string name, std::string help, std::vector<double> bounds);

  // Valid as long as the family.
  Histogram& Add(const prometheus::Labels& labels);
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string name_;
  const std::string help_;
  const std::vector<double> bounds_;
  std::deque<std::pair<prometheus::Labels, Histogram>> members_;
};

}  // namespace mnemon
