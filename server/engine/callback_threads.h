// SPDX-License-Identifier: MIT
// The threads that run consumers' callbacks, which decode text and build and write
// messages; a model runner only queues them.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mnemon {

// Something to be called on one of the threads. Bounded by its owners: a stream or a
// prediction is queued at most once at a time.
class Callback {
 public:
  virtual ~Callback() = default;
  // Must not throw.
  virtual void RunCallback() = 0;
};

// Writes the line `event` with `error` to the log, which a runner's thread must not.
std::shared_ptr<Callback> LogCallback(std::string event, std::string error);

// Gives up `object`, whose destruction may take long.
std::shared_ptr<Callback> DestroyCallback(std::shared_ptr<void> object);

// Safe for concurrent use.
class CallbackThreads {
 public:
  // `count` >= 1. Throws std::system_error when the system gives no more threads.
  explicit CallbackThreads(int count);
  ~CallbackThreads() { Stop(); }
  CallbackThreads(const CallbackThreads&) = delete;
  CallbackThreads& operator=(const CallbackThreads&) = delete;

  // Queues all of `batch` and empties it, keeping its memory. Does not wait for them.
  void Post(std::vector<std::shared_ptr<Callback>>& batch);
  void Post(std::shared_ptr<Callback> callback);
  // Runs what is queued, then ends the threads; what is queued later runs at once on
  // the thread that queues it. Not from a callback.
  void Stop();

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<std::shared_ptr<Callback>> queue_;  // guarded by mutex_
  int waiting_ = 0;                              // threads; guarded by mutex_
  bool ending_ = false;                          // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
