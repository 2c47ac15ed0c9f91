// SPDX-License-Identifier: MIT
#include "model/compute/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <optional>

#include "base/float_mode.h"
#include "base/process/control_groups.h"

namespace mnemon {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kChecks = 100;

int Steps(int count) {
  int steps = 0;
  while (1 << steps < count) ++steps;
  return steps;
}

}  // namespace

void ThreadPool::Count::Raise() {
  // Ordered with the sleeper's two steps: either it sees the new value or it is seen
  // here.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
}

bool ThreadPool::Count::Passed(uint32_t old) const {
  for (int i = 0; i < kChecks; ++i) {
    if (value_.load(std::memory_order_acquire) != old) return true;
  }
  return false;
}

bool ThreadPool::Count::SpinWhile(uint32_t old) const {
  const auto end = std::chrono::steady_clock::now() + kMostSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value_.load(std::memory_order_acquire) != old) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void ThreadPool::Count::SleepWhile(uint32_t old) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old) {
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

int UsableCores(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  const std::optional<double> limit = ReadGroupLimits(root).cores;
  if (limit && *limit < cores) cores = static_cast<int>(std::floor(*limit));
  return std::max(1, cores);
}

int PoolThreads(int wanted) { return std::min(wanted, UsableCores()); }

ThreadPool::ThreadPool(int count)
    : count_(count),
      steps_(Steps(count)),
      signals_(static_cast<size_t>(count * steps_)),
      passages_(count) {
  threads_.reserve(static_cast<size_t>(count - 1));
  try {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { Loop(i); });
  } catch (...) {
    End();
    throw;
  }
}

ThreadPool::~ThreadPool() { End(); }

void ThreadPool::End() {
  ending_ = true;
  rounds_.Raise();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(Work work, void* context) {
  const IeeeFloatMode mode;
  if (count_ == 1) return work(context, 0);
  work_ = work;
  context_ = context;
  rounds_.Raise();
  work(context, 0);
  Barrier(0);
}

void ThreadPool::Loop(int index) {
  const IeeeFloatMode mode;  // new threads inherit the creator's
  for (uint32_t round = 0;; ++round) {
    Wait(index, rounds_, round);
    if (ending_) return;
    work_(context_, index);
    Barrier(index);
  }
}

void ThreadPool::Barrier(int index) {
  const uint32_t passed = passages_[index].passed++;
  for (int step = 0; step < steps_; ++step) {
    signals_[(index + (1 << step)) % count_ * steps_ + step].Raise();
    Wait(index, signals_[index * steps_ + step], passed);
  }
}

void ThreadPool::Wait(int index, Count& count, uint32_t old) {
  // Most waits are shorter than reading the clock.
  if (count.Passed(old)) return;
  NoteCore(index);
  if (!SharesCore(index) && count.SpinWhile(old)) return;
  count.SleepWhile(old);
  NoteCore(index);  // it may have woken elsewhere
}

void ThreadPool::NoteCore(int index) {
  std::atomic<int>& noted = passages_[index].core;
  const int core = sched_getcpu();
  if (noted.load(std::memory_order_relaxed) != core) {
    noted.store(core, std::memory_order_relaxed);
  }
}

bool ThreadPool::SharesCore(int index) const {
  const int core = passages_[index].core.load(std::memory_order_relaxed);
  if (core < 0) return false;
  for (int i = 0; i < count_; ++i) {
    if (i != index && passages_[i].core.load(std::memory_order_relaxed) == core) {
      return true;
    }
  }
  return false;
}

}  // namespace mnemon
