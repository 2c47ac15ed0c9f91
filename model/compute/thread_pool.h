// SPDX-License-Identifier: MIT
// The threads that compute steps together: the caller and count - 1 others, which wait
// for each other by spinning for a bounded time, then in the kernel. Each does the same
// share of the same work every time, so that its part of the weights stays in its own
// cache.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace mnemon {

// Cores that this process may use: its affinity mask, or fewer where its control groups
// have a quota of processor time. At least 1. `root`: as of ReadGroupLimits.
int UsableCores(const std::string& root = "");

// How many threads a pool should have where `wanted` are: no more than there are usable
// cores. Steps have the same bits with fewer, and two that share a core would wait for
// it at every barrier.
int PoolThreads(int wanted);

// Run is for one thread at a time. Neither Run nor Barrier allocates, locks, or calls
// the system but to wake or to sleep.
class ThreadPool {
 public:
  // `count` >= 1. Makes count - 1 threads, which end with the pool. Throws
  // std::system_error when the system gives no more threads.
  explicit ThreadPool(int count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int count() const { return count_; }

  // Calls work(context, index) on every thread, index 0 .. count-1, the caller being 0;
  // returns when all have. All compute in the IeeeFloatMode. `work` must not throw.
  using Work = void (*)(void* context, int index);
  void Run(Work work, void* context);

  // Within Run, by thread `index`: returns when all threads have called it.
  void Barrier(int index);

 private:
  static constexpr std::chrono::nanoseconds kMostSpin{40'000};

  // A number that threads wait on, on a cache line of its own. What was written before
  // Raise is visible to a thread that reads the higher number.
  class alignas(64) Count {
   public:
    // One more; wakes who sleeps.
    void Raise();
    // Whether it is no longer `old`, now or within a fraction of a microsecond.
    bool Passed(uint32_t old) const;
    // Likewise within kMostSpin.
    bool SpinWhile(uint32_t old) const;
    // Returns when it is no longer `old`.
    void SleepWhile(uint32_t old);

   private:
    std::atomic<uint32_t> value_ = 0;
    std::atomic<int32_t> sleepers_ = 0;
  };

  // One thread's way through the barriers.
  struct alignas(64) Passage {
    uint32_t passed = 0;  // barriers
    // Where it was when it last had to wait, for the others to read; -1: not known.
    // Rarely written: on a line of its own it stays in their caches.
    alignas(64) std::atomic<int> core = -1;
  };

  // Thread `index` waits until `count` is no longer `old`: it spins, then sleeps. Where
  // another thread of the pool was last seen on the same core it sleeps at once: that
  // one may be who is waited for, and needs the core.
  void Wait(int index, Count& count, uint32_t old);
  void NoteCore(int index);
  bool SharesCore(int index) const;
  void Loop(int index);
  void End();

  const int count_;
  Work work_ = nullptr;  // with context_, written before rounds_ is raised
  void* context_ = nullptr;
  bool ending_ = false;  // written before rounds_ is raised
  Count rounds_;         // of Run; raised once more to end the threads
  // Barriers are passed in steps (dissemination, Hensgen, Finkel and Manber 1988): in
  // step s a thread signals the one 2^s further on and waits for the one 2^s before it;
  // after log2(count) steps all have arrived.
  const int steps_;
  std::vector<Count> signals_;     // [count][steps_]: signals that each got
  std::vector<Passage> passages_;  // each written by its own thread
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
