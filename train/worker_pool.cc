// SPDX-License-Identifier: MIT
#include "train/worker_pool.h"

#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include "base/check.h"

namespace mnemon {
namespace {

absl::Status Guarded(const WorkerPool::Work& work, int worker) {
  try {
    return work(worker);
  } catch (const c10::Error& error) {
    return absl::InternalError(std::string("libtorch: ") +
                               error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

WorkerPool::WorkerPool(int size) : results_(size) {
  MNEMON_CHECK(size >= 1);
  for (int worker = 1; worker < size; ++worker) {
    threads_.emplace_back([this, worker] { Loop(worker); });
  }
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkerPool::Run(const Work& work) {
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    running_ = static_cast<int>(threads_.size());
    ++round_;
  }
  changed_.notify_all();
  absl::Status first = Guarded(work, 0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return running_ == 0; });
  results_[0] = first;
  for (const absl::Status& result : results_) {
    if (!result.ok()) return result;
  }
  return absl::OkStatus();
}

void WorkerPool::Loop(int worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || round_ != seen; });
    if (stopping_) return;
    seen = round_;
    const Work* work = work_;
    lock.unlock();
    absl::Status result = Guarded(*work, worker);
    lock.lock();
    results_[worker] = std::move(result);
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace mnemon
