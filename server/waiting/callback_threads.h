// SPDX-License-Identifier: MIT
// Threads that run callbacks, which a model runner only queues.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace mnemon {

// Work for a callback thread.
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

// Callbacks in the order in which they were added. One that is already on a list is not
// added again, because it will still be called. Needs no memory.
class CallbackList {
 public:
  CallbackList() = default;
  ~CallbackList();
  CallbackList(const CallbackList&) = delete;
  CallbackList& operator=(const CallbackList&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void Add(std::shared_ptr<Callback> callback);
  // Moves the first `count` callbacks of `other` to the end.
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

// An object that a callback thread destroys, because that may take long.
class DestroyedLater : public Callback {
 public:
  void RunCallback() final {}
};

// A callback that calls `function` once.
std::shared_ptr<Callback> MakeCallback(std::function<void()> function);

// Writes the line `event` with `error` to the log, which a runner's thread must not do.
// Null when memory has run out.
std::shared_ptr<Callback> LogCallback(std::string_view event, std::string_view error);

// A pool of callback threads. Safe for concurrent use.
class CallbackThreads {
 public:
  static constexpr std::chrono::milliseconds kDelay{1};

  // `count` >= 1; `delay`: how long PostLater waits for more callbacks; `most_at_once`
  // >= 1: callbacks that a thread takes at once, 1 if they may block. Throws
  // std::system_error.
  explicit CallbackThreads(int count, std::chrono::milliseconds delay = kDelay,
                           size_t most_at_once = 16);
  ~CallbackThreads() { Stop(); }
  CallbackThreads(const CallbackThreads&) = delete;
  CallbackThreads& operator=(const CallbackThreads&) = delete;

  // Queues all callbacks of `batch`, which is then empty. Does not wait for them.
  void Post(CallbackList& batch);
  void Post(std::shared_ptr<Callback> callback);
  // Queues them to run together with others of PostLater: `delay` after the first.
  void PostLater(CallbackList& batch);
  // Runs what is queued, then ends the threads. Later callbacks run at once on the
  // thread that queues them. Not to be called from a callback.
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
  std::chrono::steady_clock::time_point due_;  // valid unless later_ is empty
  int waiting_ = 0;                            // idle threads
  bool ending_ = false;
  // Constant from the constructor until Stop joins them, called by one thread.
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
