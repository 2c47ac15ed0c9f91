// SPDX-License-Identifier: MIT
#include "server/engine/callback_threads.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace mnemon {
namespace {

// Taken by a thread at a time: few locks, and still work for the others.
constexpr size_t kMostAtOnce = 16;

class LogLine final : public Callback {
 public:
  LogLine(std::string event, std::string error)
      : event_(std::move(event)), error_(std::move(error)) {}
  void RunCallback() override {
    LogEvent(LogLevel::kError, event_, {{"error", error_}});
  }

 private:
  const std::string event_;
  const std::string error_;
};

class Holder final : public Callback {
 public:
  explicit Holder(std::shared_ptr<void> object) : object_(std::move(object)) {}
  void RunCallback() override { object_ = nullptr; }

 private:
  std::shared_ptr<void> object_;
};

}  // namespace

std::shared_ptr<Callback> DestroyCallback(std::shared_ptr<void> object) {
  return std::make_shared<Holder>(std::move(object));
}

std::shared_ptr<Callback> LogCallback(std::string event, std::string error) {
  return std::make_shared<LogLine>(std::move(event), std::move(error));
}

CallbackThreads::CallbackThreads(int count) {
  for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Loop(); });
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

void CallbackThreads::Post(std::vector<std::shared_ptr<Callback>>& batch) {
  if (batch.empty()) return;
  int wake = 0;
  bool ended;
  {
    std::lock_guard lock(mutex_);
    ended = ending_;
    if (!ended) {
      queue_.insert(queue_.end(), std::make_move_iterator(batch.begin()),
                    std::make_move_iterator(batch.end()));
      wake = std::min<int>(waiting_, 1 + static_cast<int>(batch.size() / kMostAtOnce));
    }
  }
  if (ended) {
    for (const auto& callback : batch) callback->RunCallback();
  }
  batch.clear();
  for (int i = 0; i < wake; ++i) work_.notify_one();
}

void CallbackThreads::Post(std::shared_ptr<Callback> callback) {
  std::vector<std::shared_ptr<Callback>> batch;
  batch.push_back(std::move(callback));
  Post(batch);
}

void CallbackThreads::Loop() {
  std::vector<std::shared_ptr<Callback>> taken;
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty() && !ending_) {
      ++waiting_;
      work_.wait(lock);
      --waiting_;
    }
    if (queue_.empty()) return;
    const size_t share = queue_.size() / threads_.size() + 1;
    for (size_t i = std::min({queue_.size(), share, kMostAtOnce}); i > 0; --i) {
      taken.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    lock.unlock();
    for (const auto& callback : taken) callback->RunCallback();
    taken.clear();
    lock.lock();
  }
}

}  // namespace mnemon
