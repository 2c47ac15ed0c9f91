// SPDX-License-Identifier: MIT
// A thread that cleans the blocks given back to pools, in pieces of kBatchBytes and by
// turns, keeps some memory ready in each, and gives the system back what a pool has not
// used for a period. It runs below normal priority: threads that compute come first.
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

// Safe for concurrent use. Outlives the pools and arenas that name it.
class BlockRecycler {
 public:
  static constexpr int64_t kBatchBytes = int64_t{1} << 20;
  static constexpr std::chrono::nanoseconds kPeriod = std::chrono::seconds(5);

  explicit BlockRecycler(std::chrono::nanoseconds period = kPeriod);
  // REQUIRES: no pool is left.
  ~BlockRecycler();
  BlockRecycler(const BlockRecycler&) = delete;
  BlockRecycler& operator=(const BlockRecycler&) = delete;

  // There may be work in a pool. A system call only when the thread sleeps.
  void Wake();
  // Whether a pool has memory that is clean and not put aside, or is about to have.
  bool HasReserves();
  // Memory is short: once all is clean pools give back their reserves too, without
  // waiting for the end of a period; then on_clean of every pool is called.
  void GiveUpReserves();

  // For pools. Remove waits for at most one batch of this pool.
  void Add(BlockPool& pool);
  void Remove(BlockPool& pool);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void Run();
  // Calls work(pool) for every pool, without the mutex, which `lock` holds before and
  // after. Whether any returned true.
  template <class Work>
  bool ForEach(std::unique_lock<std::mutex>& lock, const Work& work);
  // Until there is work, or the time.
  void SleepUntil(uint32_t seen, Time time);

  const std::chrono::nanoseconds period_;
  std::atomic<uint32_t> wakes_{0};
  std::atomic<bool> short_{false};  // GiveUpReserves was called

  std::mutex sleep_mutex_;  // for sleep_ alone
  std::condition_variable sleep_;
  std::atomic<bool> asleep_{false};

  std::mutex mutex_;
  std::condition_variable batch_done_;
  std::vector<BlockPool*> pools_;  // guarded by mutex_
  BlockPool* busy_ = nullptr;      // guarded by mutex_; in a call of the thread now
  bool stopping_ = false;          // guarded by mutex_
  std::thread thread_;             // last: it uses all of them
};

}  // namespace mnemon
