// SPDX-License-Identifier: MIT
#include "model/kernels/thread_team.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <fstream>
#include <string>

namespace mnemon {
namespace {

using Clock = std::chrono::steady_clock;

// Runs and time that say whether the team is worth its waits: one thread that lost its
// core once, for some milliseconds, does not decide it. And how many times as long the
// caller then goes on alone, at most.
constexpr int kTrialRuns = 2;
constexpr std::chrono::milliseconds kTrial{20};
constexpr int kAloneTimes = 20;
constexpr std::chrono::seconds kMostAlone{1};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Cores worth of processor time per period; infinite without a limit.
double Quota() {
  // cgroup v2: "max 100000" or "150000 100000".
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (v2 >> limit >> period && limit != "max" && period > 0) {
    return std::strtod(limit.c_str(), nullptr) / period;
  }
  std::ifstream quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream length("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double used = 0;
  if (quota >> used && length >> period && used > 0 && period > 0) return used / period;
  return HUGE_VAL;
}

}  // namespace

void ThreadTeam::Count::Raise() {
  // In one order with the sleeper's two steps: either it sees the new value or it is
  // seen here.
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
}

ThreadTeam::Wait ThreadTeam::Count::WaitWhile(uint32_t old, Nanoseconds spin) {
  if (value_.load(std::memory_order_acquire) != old) return {};
  const Time start = Clock::now();
  Time now = start;
  do {
    for (int i = 0; i < 16; ++i) {
      if (value_.load(std::memory_order_acquire) != old) return {.all = now - start};
      Pause();
    }
    now = Clock::now();
  } while (now - start < spin);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (value_.load(std::memory_order_seq_cst) == old) {
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  const Time end = Clock::now();
  return {.all = end - start, .asleep = end - now};
}

// All together, a thread works for its time but the waits, `count` times that in all:
// when the caller waits longer than 1 - 1/count of it, it is faster alone.
void ThreadTeam::Company::Judge(Time start, Time end) {
  ++runs_;
  ran_ += end - start;
  if (runs_ < kTrialRuns || ran_ < kTrial) return;
  if (waited_ * count_ > ran_ * (count_ - 1)) {
    back_ = end + std::min<Nanoseconds>(ran_ * kAloneTimes, kMostAlone);
  }
  runs_ = 0;
  ran_ = waited_ = Nanoseconds(0);
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = CPU_COUNT(&set);
  const double quota = Quota();
  if (quota < cores) cores = static_cast<int>(std::floor(quota));
  return std::max(1, cores);
}

ThreadTeam::ThreadTeam(int count, Absence absence)
    : count_(count), absence_(absence), patience_(count), company_(count) {
  threads_.reserve(static_cast<size_t>(count - 1));
  try {
    for (int i = 1; i < count; ++i) threads_.emplace_back([this, i] { Loop(i); });
  } catch (...) {
    End();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { End(); }

void ThreadTeam::End() {
  ending_ = true;
  rounds_.Raise();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Run(Work work, void* context) {
  if (count_ == 1) return work(context, 0, 1);
  const Time start = Clock::now();
  if (company_.away(start)) return work(context, 0, 1);
  work_ = work;
  context_ = context;
  rounds_.Raise();
  work(context, 0, count_);
  Barrier(0);
  if (absence_ == Absence::kGoOnAlone) company_.Judge(start, Clock::now());
}

void ThreadTeam::Loop(int index) {
  for (uint32_t round = 0;; ++round) {
    rounds_.WaitWhile(round, kMostSpin);
    if (ending_) return;
    work_(context_, index, count_);
    Barrier(index);
  }
}

void ThreadTeam::Barrier(int index) {
  const uint32_t passed = passed_.value();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    passed_.Raise();
    return;
  }
  Nanoseconds& spin = patience_[index].spin;
  const Wait wait = passed_.WaitWhile(passed, spin);
  if (wait.asleep.count() == 0) {
    spin = std::min(kMostSpin, spin + spin / 4);
  } else {
    spin = wait.asleep < kShortSleep ? std::max(kLeastSpin, spin / 4) : kMostSpin;
  }
  if (index == 0) company_.Waited(wait.all);
}

}  // namespace mnemon
