// SPDX-License-Identifier: MIT
#include "model/state/block_recycler.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/state/block_pool.h"

namespace mnemon {
namespace {

// Still makes progress on a machine that computes on all cores.
constexpr int kNice = 10;

}  // namespace

BlockRecycler::BlockRecycler(std::chrono::nanoseconds period)
    : period_(period), thread_([this] { Run(); }) {}

BlockRecycler::~BlockRecycler() {
  {
    std::lock_guard lock(mutex_);
    MNEMON_CHECK(pools_.empty());
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

// Either the thread sees the new number before it sleeps, or it is seen asleep.
void BlockRecycler::Wake() {
  wakes_.fetch_add(1);
  if (!asleep_) return;
  { std::lock_guard lock(sleep_mutex_); }
  sleep_.notify_one();
}

void BlockRecycler::SleepUntil(uint32_t seen, Time time) {
  std::unique_lock lock(sleep_mutex_);
  asleep_ = true;
  sleep_.wait_until(lock, time, [&] { return wakes_ != seen; });
  asleep_ = false;
}

bool BlockRecycler::HasReserves() {
  std::lock_guard lock(mutex_);
  return std::any_of(pools_.begin(), pools_.end(), [](const BlockPool* pool) {
    return pool->recycling() > 0 || pool->HasReserve();
  });
}

void BlockRecycler::GiveUpReserves() {
  short_ = true;
  Wake();
}

void BlockRecycler::Add(BlockPool& pool) {
  {
    std::lock_guard lock(mutex_);
    pools_.push_back(&pool);
  }
  Wake();
}

void BlockRecycler::Remove(BlockPool& pool) {
  {
    std::unique_lock lock(mutex_);
    std::erase(pools_, &pool);
    batch_done_.wait(lock, [&] { return busy_ != &pool; });
  }
  Wake();  // a running pass may have missed the pool that moved up
}

template <class Work>
bool BlockRecycler::ForEach(std::unique_lock<std::mutex>& lock, const Work& work) {
  bool any = false;
  for (size_t i = 0; i < pools_.size(); ++i) {
    busy_ = pools_[i];
    lock.unlock();
    any |= work(*busy_);
    lock.lock();
    busy_ = nullptr;
    batch_done_.notify_all();
  }
  return any;
}

void BlockRecycler::Run() {
  setpriority(PRIO_PROCESS, 0, kNice);  // only this thread; best effort
  Time end = std::chrono::steady_clock::now() + period_;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint32_t seen = wakes_;
    if (std::chrono::steady_clock::now() >= end) {
      end = std::chrono::steady_clock::now() + period_;
      ForEach(lock,
              [](BlockPool& pool) { return pool.EndPeriod(/*all=*/false), false; });
    }
    const bool more =
        ForEach(lock, [](BlockPool& pool) { return pool.Recycle(kBatchBytes); });
    const bool gave = ForEach(lock, [](BlockPool& pool) { return pool.GiveBack(); });
    if (more || gave) continue;
    if (short_.exchange(false)) {
      ForEach(lock,
              [](BlockPool& pool) { return pool.EndPeriod(/*all=*/true), false; });
      while (ForEach(lock, [](BlockPool& pool) { return pool.GiveBack(); })) {
      }
      ForEach(lock, [](BlockPool& pool) { return pool.NotifyClean(), false; });
      continue;
    }
    lock.unlock();
    SleepUntil(seen, end);
    lock.lock();
  }
}

}  // namespace mnemon
