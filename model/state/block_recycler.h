// SPDX-License-Identifier: MIT
// A thread that cleans the blocks given back to pools, in pieces of kBatchBytes and by
// turns, and keeps some memory ready in each. It runs below normal priority: threads
// that compute come first.
#pragma once

#include <atomic>
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

  BlockRecycler();
  // REQUIRES: no pool is left.
  ~BlockRecycler();
  BlockRecycler(const BlockRecycler&) = delete;
  BlockRecycler& operator=(const BlockRecycler&) = delete;

  // There may be work in a pool. A system call only when the thread sleeps.
  void Wake();

  // For pools. Remove waits for at most one batch of this pool.
  void Add(BlockPool& pool);
  void Remove(BlockPool& pool);

 private:
  void Run();

  std::atomic<uint32_t> wakes_{0};
  std::mutex mutex_;
  std::condition_variable batch_done_;
  std::vector<BlockPool*> pools_;  // guarded by mutex_
  BlockPool* busy_ = nullptr;      // guarded by mutex_; in Recycle now
  bool stopping_ = false;          // guarded by mutex_
  std::thread thread_;             // last: it uses all of them
};

}  // namespace mnemon
