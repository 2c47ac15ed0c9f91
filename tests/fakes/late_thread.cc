// SPDX-License-Identifier: MIT
#include "tests/fakes/late_thread.h"

#include <algorithm>
#include <utility>

namespace mnemon {

LateThread::LateThread() : thread_([this] { Run(); }) {}

LateThread::~LateThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

int64_t LateThread::Give(std::function<void()> work, bool due) {
  std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ++given_;
  if (due) due_ = given_;
  changed_.notify_all();
  return given_;
}

void LateThread::Await(int64_t number) {
  std::unique_lock lock(mutex_);
  due_ = std::max(due_, number);
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ >= number; });
}

void LateThread::AwaitAll() {
  std::unique_lock lock(mutex_);
  due_ = given_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ >= due_; });
}

void LateThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || (!work_.empty() && done_ < due_); });
    if (stopping_) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace mnemon
