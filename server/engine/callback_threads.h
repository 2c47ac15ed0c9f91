// SPDX-License-Identifier: MIT
// The threads that run consumers' callbacks, which decode text and build and write
// messages; a model runner only queues them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace mnemon {

// Something to be called on one of the threads.
class Callback {
 public:
  virtual ~Callback() = default;
  // Must not throw.
  virtual void RunCallback() = 0;

 private:
  friend class CallbackList;

  std::atomic<bool> queued_ = false;  // on a list
  std::shared_ptr<Callback> next_;
};

// Callbacks in the order in which they were added. One that is on any list already is
// not added again: it will be called after that. Needs no memory.
class CallbackList {
 public:
  CallbackList() = default;
  ~CallbackList();
  CallbackList(const CallbackList&) = delete;
  CallbackList& operator=(const CallbackList&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void Add(std::shared_ptr<Callback> callback);
  // Moves the first `count`, or all, of `other` to the end.
  void Take(CallbackList& other, size_t count = SIZE_MAX);
  // Calls and removes all.
  void RunAll();

 private:
  void Append(std::shared_ptr<Callback> callback);
  std::shared_ptr<Callback> RemoveFirst();

  std::shared_ptr<Callback> first_;
  Callback* last_ = nullptr;
  size_t size_ = 0;
};

// Something whose destruction may take long: a callback thread calls nothing, and
// destroys it.
class DestroyedLater : public Callback {
 public:
  void RunCallback() final {}
};

// One that calls `function`, once.
std::shared_ptr<Callback> MakeCallback(std::function<void()> function);

// Writes the line `event` with `error` to the log, which a runner's thread must not.
// Null when memory has run out.
std::shared_ptr<Callback> LogCallback(std::string_view event, std::string_view error);

// Safe for concurrent use.
class CallbackThreads {
 public:
  // How long those of PostLater wait at most for others, unless it is given.
  static constexpr std::chrono::milliseconds kDelay{1};
  // How many a thread takes at once at most, unless it is given.
  static constexpr size_t kMostAtOnce = 16;

  // `count` >= 1; `most_at_once` >= 1: one, where what is called may wait, and the next
  // one is for another thread. Throws std::system_error when the system gives no more
  // threads.
  explicit CallbackThreads(int count, std::chrono::milliseconds delay = kDelay,
                           size_t most_at_once = kMostAtOnce);
  ~CallbackThreads() { Stop(); }
  CallbackThreads(const CallbackThreads&) = delete;
  CallbackThreads& operator=(const CallbackThreads&) = delete;

  // Queues all of `batch` and empties it. Does not wait for them.
  void Post(CallbackList& batch);
  void Post(std::shared_ptr<Callback> callback);
  // Likewise, to be run the delay after the first of those that wait so.
  void PostLater(CallbackList& batch);
  // Runs what is queued, then ends the threads; what is queued later runs at once on
  // the thread that queues it. Not from a callback.
  void Stop();

 private:
  void Loop();
  void MoveDueLocked();

  const std::chrono::milliseconds delay_;
  const size_t most_at_once_;
  std::mutex mutex_;
  std::condition_variable work_;
  CallbackList queue_;                         // guarded by mutex_, as all below
  CallbackList later_;                         // until due_
  std::chrono::steady_clock::time_point due_;  // while later_ has any
  int waiting_ = 0;                            // threads
  bool ending_ = false;
  // Constant from the constructor to Stop, which one thread calls, and which joins
  // them.
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
