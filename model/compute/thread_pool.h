// SPDX-License-Identifier: MIT
// The threads that compute steps together: the caller and count - 1 others. They wait
// for each other by spinning for a bounded time, then in the kernel. Each thread gets
// the same share of the same work every time, so that its part of the weights stays in
// its own cache.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mnemon {

// Cores that this process may use: its affinity mask, or fewer if its control groups
// have a quota of processor time. At least 1. `root`: see ReadGroupLimits.
int UsableCores(const std::string& root = "");

// Threads for a pool that is to have `wanted`: at most the usable cores. Steps have the
// same bits with fewer threads, and two on one core would wait for each other at every
// barrier.
int PoolThreads(int wanted);

// Run is for one thread at a time. Neither Run nor Barrier allocates or locks; they
// make system calls only to wake or to sleep.
class ThreadPool {
 public:
  // `count` >= 1. Starts count - 1 threads, which end with the pool. Throws
  // std::system_error if the system gives no more threads.
  explicit ThreadPool(int count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int count() const { return count_; }

  // Calls work(context, index) on every thread, with index 0 .. count-1; the caller is
  // 0. Returns when all calls have. All compute in the IeeeFloatMode. `work` must not
  // throw.
  using Work = void (*)(void* context, int index);
  void Run(Work work, void* context);

  // Called within Run by thread `index`; returns when all threads have called it.
  void Barrier(int index);

 private:
  static constexpr std::chrono::nanoseconds kMostSpin{40'000};

  // A counter that threads wait on, on its own cache line. Writes before Raise are
  // visible to a thread that reads the higher number.
  class alignas(64) Count {
   public:
    // Increments the counter and wakes sleeping threads.
    void Raise();
    // Whether the counter is no longer `old`, now or within a fraction of a
    // microsecond.
    bool Passed(uint32_t old) const;
    // The same within kMostSpin.
    bool SpinWhile(uint32_t old) const;
    // Returns when the counter is no longer `old`.
    void SleepWhile(uint32_t old);

   private:
    std::atomic<uint32_t> value_ = 0;
    std::atomic<int32_t> sleepers_ = 0;
  };

  // Progress of one thread through the barriers.
  struct alignas(64) Passage {
    uint32_t passed = 0;  // barriers passed
    // Core on which it last had to wait, for others to read; -1: not known. Rarely
    // written: on its own cache line it stays in their caches.
    alignas(64) std::atomic<int> core = -1;
  };

  // Waits in thread `index` until `count` is no longer `old`: spins, then sleeps. If
  // another thread of the pool was last seen on the same core, it sleeps at once: that
  // thread may be the one waited for, and needs the core.
  void Wait(int index, Count& count, uint32_t old);
  void NoteCore(int index);
  bool SharesCore(int index) const;
  void Loop(int index);
  void End();

  const int count_;
  Work work_ = nullptr;  // with context_, written before rounds_ is raised
  void* context_ = nullptr;
  bool ending_ = false;  // written before rounds_ is raised
  Count rounds_;         // calls of Run; raised once more to end the threads
  // A barrier has log2(count) steps (dissemination, Hensgen, Finkel and Manber 1988):
  // in step s a thread signals the one 2^s after it and waits for the one 2^s before
  // it; then all have arrived.
  const int steps_;
  std::vector<Count> signals_;     // [count][steps_]: signals received
  std::vector<Passage> passages_;  // each written by its own thread
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
