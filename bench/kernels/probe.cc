// SPDX-License-Identifier: MIT
#include "bench/kernels/probe.h"

#include <algorithm>
#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "base/memory/slabs.h"
#include "bench/kernels/vector_loops.h"

namespace mnemon {
namespace {

using Time = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kGranule = 512;  // floats: what ReadFloats takes at least
// Least bytes of a pass, so that starting the threads together costs little.
constexpr int64_t kPassBytes = int64_t{64} << 20;
constexpr int64_t kPassRounds = 1'000'000;

// The shortest pass, in seconds, from the common start of all threads to the end of the
// last.
double BestPass(int threads, Seconds budget, const std::function<void(int)>& pass) {
  double best = 0;
  bool more = true;
  const Time::time_point begin = Time::now();
  Time::time_point start = begin;
  int passes = 0;
  // Runs on one thread while all others wait.
  std::barrier starting(threads, [&]() noexcept { start = Time::now(); });
  std::barrier ending(threads, [&]() noexcept {
    const Time::time_point now = Time::now();
    const double took = Seconds(now - start).count();
    // The first pass warms up.
    if (passes == 1 || (passes > 1 && took < best)) best = took;
    more = ++passes < 3 || now - begin < budget;
  });
  const auto run = [&](int thread) {
    while (more) {
      starting.arrive_and_wait();
      pass(thread);
      ending.arrive_and_wait();
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  return best;
}

double ProbeArithmetic(int threads, Seconds budget, double (*multiply_add)(int64_t)) {
  double operations = 0;  // of one thread, the same in each
  const double seconds = BestPass(threads, budget, [&](int thread) {
    const double done = multiply_add(kPassRounds);
    if (thread == 0) operations = done;
  });
  return operations * threads / seconds;
}

}  // namespace

double ProbeRead(int64_t bytes, int threads, Seconds budget) {
  const int64_t floats = bytes / static_cast<int64_t>(sizeof(float));
  const int64_t part = std::max<int64_t>(1, floats / threads / kGranule) * kGranule;
  Slabs memory;  // as the weights and states of a step
  float* const buffer = memory.TakeFloats(part * threads);
  std::fill_n(buffer, part * threads, 1.0f);
  const int64_t part_bytes = part * static_cast<int64_t>(sizeof(float));
  const int64_t times = std::max<int64_t>(1, kPassBytes / threads / part_bytes);
  const double seconds = BestPass(threads, budget, [&](int thread) {
    volatile float sink;
    for (int64_t i = 0; i < times; ++i) {
      sink = ReadFloats(buffer + thread * part, static_cast<size_t>(part));
    }
    static_cast<void>(sink);
  });
  return static_cast<double>(times * part_bytes) * threads / seconds;
}

double ProbeFma(int threads, Seconds budget) {
  return ProbeArithmetic(threads, budget, MultiplyAdd);
}

double ProbeInt8(int threads, Seconds budget) {
  return ProbeArithmetic(threads, budget, MultiplyAddInt8);
}

}  // namespace mnemon
