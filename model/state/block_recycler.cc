// SPDX-License-Identifier: MIT
#include "model/state/block_recycler.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/check.h"
#include "model/state/block_pool.h"

namespace mnemon {
namespace {

// Enough to make progress on a machine that computes on all cores.
constexpr int kNice = 10;

}  // namespace

BlockRecycler::BlockRecycler() : thread_([this] { Run(); }) {}

BlockRecycler::~BlockRecycler() {
  {
    std::lock_guard lock(mutex_);
    MNEMON_CHECK(pools_.empty());
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

void BlockRecycler::Wake() {
  wakes_.fetch_add(1);
  wakes_.notify_one();  // no system call when no thread waits
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
  Wake();  // a pass under way may have missed the pool that moved up
}

void BlockRecycler::Run() {
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread; best effort
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const uint32_t seen = wakes_.load();
    bool more = false;
    for (size_t i = 0; i < pools_.size(); ++i) {
      busy_ = pools_[i];
      lock.unlock();
      more |= busy_->Recycle(kBatchBytes);
      lock.lock();
      busy_ = nullptr;
      batch_done_.notify_all();
    }
    if (more) continue;
    lock.unlock();
    wakes_.wait(seen);
    lock.lock();
  }
}

}  // namespace mnemon
