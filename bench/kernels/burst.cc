// SPDX-License-Identifier: MIT
#include "bench/kernels/burst.h"

#include <chrono>
#include <limits>
#include <numeric>

#include "bench/figures/spread.h"
#include "bench/kernels/vector_loops.h"

namespace mnemon {
namespace {

// One runs first, because processors start wide multiply-adds slowly. Both are too
// short for the clock to rise much.
constexpr int64_t kRounds = 4000;

}  // namespace

Burst::Burst(ThreadPool* pool, WeightFormat format)
    : pool_(pool),
      multiply_add_(format == WeightFormat::kInt8 ? MultiplyAddInt8 : MultiplyAdd),
      parts_(pool == nullptr ? 0 : static_cast<size_t>(pool->count())) {}

void Burst::Run() {
  if (pool_ == nullptr) return;
  const auto work = [](void* given, int thread) {
    using Clock = std::chrono::steady_clock;
    Burst& burst = *static_cast<Burst*>(given);
    burst.multiply_add_(kRounds);
    const Clock::time_point start = Clock::now();
    const double operations = burst.multiply_add_(kRounds);
    const std::chrono::duration<double> took = Clock::now() - start;
    burst.parts_[static_cast<size_t>(thread)] = operations / took.count();
  };
  pool_->Run(work, this);
  rates_.push_back(std::accumulate(parts_.begin(), parts_.end(), 0.0));
}

double Burst::rate() const {
  return rates_.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : SpreadOf(rates_).median;
}

void Burst::Describe(double operations, double seconds, Record& record) const {
  record.Set("sustained_gflops", rate() / 1e9);
  record.Set("sustained_share", operations / seconds / rate());
}

}  // namespace mnemon
