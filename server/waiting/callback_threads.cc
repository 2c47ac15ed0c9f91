// SPDX-License-Identifier: MIT
#include "server/waiting/callback_threads.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/log.h"

namespace mnemon {
namespace {

class FunctionCallback final : public Callback {
 public:
  explicit FunctionCallback(std::function<void()> function)
      : function_(std::move(function)) {}
  void RunCallback() override { std::exchange(function_, {})(); }

 private:
  std::function<void()> function_;
};

}  // namespace

CallbackList::~CallbackList() {
  // One by one: the chain must not be destroyed by recursion.
  while (first_) RemoveFirst();
}

void CallbackList::Add(std::shared_ptr<Callback> callback) {
  if (callback == nullptr || callback->queued_.exchange(true)) return;
  Append(std::move(callback));
}

void CallbackList::Append(std::shared_ptr<Callback> callback) {
  Callback* const added = callback.get();
  (last_ == nullptr ? first_ : last_->next_) = std::move(callback);
  last_ = added;
  ++size_;
}

std::shared_ptr<Callback> CallbackList::RemoveFirst() {
  std::shared_ptr<Callback> removed = std::move(first_);
  first_ = std::move(removed->next_);
  if (first_ == nullptr) last_ = nullptr;
  --size_;
  return removed;
}

void CallbackList::Take(CallbackList& other, size_t count) {
  for (; count > 0 && !other.empty(); --count) Append(other.RemoveFirst());
}

void CallbackList::RunAll() {
  while (!empty()) {
    const std::shared_ptr<Callback> callback = RemoveFirst();
    callback->queued_ = false;
    callback->RunCallback();
  }
}

std::shared_ptr<Callback> MakeCallback(std::function<void()> function) {
  return std::make_shared<FunctionCallback>(std::move(function));
}

std::shared_ptr<Callback> LogCallback(std::string_view event,
                                      std::string_view error) try {
  return MakeCallback([event = std::string(event), error = std::string(error)] {
    try {
      LogEvent(LogLevel::kError, event, {{"error", error}});
    } catch (const std::bad_alloc&) {
      // The line is lost.
    }
  });
} catch (const std::bad_alloc&) {
  return nullptr;
}

CallbackThreads::CallbackThreads(int count, std::chrono::milliseconds delay,
                                 size_t most_at_once)
    : delay_(delay), most_at_once_(most_at_once) {
  try {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Loop(); });
  } catch (...) {
    Stop();  // those that have started
    throw;
  }
}

void CallbackThreads::Stop() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void CallbackThreads::Post(CallbackList& batch) {
  if (batch.empty()) return;
  int wake = 0;
  {
    std::lock_guard lock(mutex_);
    if (!ending_) {
      wake =
          std::min<int>(waiting_, 1 + static_cast<int>(batch.size() / most_at_once_));
      queue_.Take(batch);
    }
  }
  batch.RunAll();  // those that no thread will call
  for (int i = 0; i < wake; ++i) work_.notify_one();
}

void CallbackThreads::Post(std::shared_ptr<Callback> callback) {
  CallbackList batch;
  batch.Add(std::move(callback));
  Post(batch);
}

void CallbackThreads::PostLater(CallbackList& batch) {
  if (batch.empty()) return;
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (!ending_) {
      // Where some wait already, a thread waits for them, or will once it has run what
      // it took.
      if (later_.empty()) {
        due_ = std::chrono::steady_clock::now() + delay_;
        wake = waiting_ > 0;
      }
      later_.Take(batch);
    }
  }
  batch.RunAll();  // those that no thread will call
  if (wake) work_.notify_one();
}

void CallbackThreads::MoveDueLocked() {
  if (later_.empty()) return;
  if (ending_ || due_ <= std::chrono::steady_clock::now()) queue_.Take(later_);
}

void CallbackThreads::Loop() {
  CallbackList taken;
  std::unique_lock lock(mutex_);
  while (true) {
    for (MoveDueLocked(); queue_.empty() && !ending_; MoveDueLocked()) {
      ++waiting_;
      if (later_.empty()) {
        work_.wait(lock);
      } else {
        work_.wait_until(lock, due_);
      }
      --waiting_;
    }
    if (queue_.empty()) return;
    const size_t share = queue_.size() / threads_.size() + 1;
    taken.Take(queue_, std::min(share, most_at_once_));
    lock.unlock();
    taken.RunAll();
    lock.lock();
  }
}

}  // namespace mnemon
