// SPDX-License-Identifier: MIT
// A thread that cleans freed blocks of pools, in pieces of kBatchBytes and in turns,
// keeps some memory ready in each pool, and returns to the system what a pool has not
// used for a period. It runs below normal priority, since computing threads come first.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace mnemon {

class BlockPool;

// Safe for concurrent use. Must outlive its pools and arenas.
class BlockRecycler {
 public:
  static constexpr int64_t kBatchBytes = int64_t{1} << 20;
  static constexpr std::chrono::nanoseconds kPeriod = std::chrono::seconds(5);

  explicit BlockRecycler(std::chrono::nanoseconds period = kPeriod);
  // REQUIRES: all pools are removed.
  ~BlockRecycler();
  BlockRecycler(const BlockRecycler&) = delete;
  BlockRecycler& operator=(const BlockRecycler&) = delete;

  // Announces that a pool may have work. Makes a system call only if the thread sleeps.
  void Wake();
  // Whether a pool has, or is about to have, clean memory that is not set aside.
  bool HasReserves();
  // Called if memory is short: once all is clean, pools return their reserves too,
  // without waiting for the end of a period; then on_clean of every pool is called.
  void GiveUpReserves();

  // Called by pools. Remove waits for at most one batch of this pool.
  void Add(BlockPool& pool);
  void Remove(BlockPool& pool);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Run();
  // Calls work(pool) for every pool, without the mutex, which `lock` holds before and
  // after. Returns whether any call returned true.
  template <class Work>
  bool ForEach(std::unique_lock<std::mutex>& lock, const Work& work);
  // Sleeps until there is work, or until `time`.
  void SleepUntil(uint32_t seen, Time time);

  const std::chrono::nanoseconds period_;
  std::atomic<uint32_t> wakes_{0};
  std::atomic<bool> short_{false};  // GiveUpReserves was called

  std::mutex sleep_mutex_;  // only for sleep_
  std::condition_variable sleep_;
  std::atomic<bool> asleep_{false};

  std::mutex mutex_;
  std::condition_variable batch_done_;
  std::vector<BlockPool*> pools_;  // guarded by mutex_
  BlockPool* busy_ = nullptr;      // guarded by mutex_; pool that the thread works on
  bool stopping_ = false;          // guarded by mutex_
  std::thread thread_;             // last, since it uses all members
};

}  // namespace mnemon
