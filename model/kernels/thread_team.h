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
#include <thread>
#include <vector>

namespace mnemon {

// Cores that this process may use: its affinity mask, or fewer where the container has
// a quota of processor time. At least 1.
int UsableCores();

// Run is for one thread at a time. Neither Run nor Barrier allocates, locks, or calls
// the system but to wake or to sleep.
class ThreadTeam {
 public:
  // `count` >= 1. Makes count - 1 threads, which take over the floating-point mode of
  // the maker; they end with the team. Throws std::system_error when the system gives
  // no more threads.
  explicit ThreadTeam(int count);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int count() const { return count_; }

  // Calls work(context, index) on every thread, index 0 .. count-1, the caller being 0;
  // returns when all have. `work` must not throw.
  using Work = void (*)(void* context, int index);
  void Run(Work work, void* context);

  // Within Run, by thread `index`: returns when all threads have called it.
  void Barrier(int index);

 private:
  static constexpr std::chrono::nanoseconds kMostSpin{40'000};
  static constexpr std::chrono::nanoseconds kLeastSpin{1'000};
  static constexpr std::chrono::nanoseconds kShortSleep{20'000};

  // A number that threads wait on, on a cache line of its own.
  class alignas(64) Count {
   public:
    // One more; wakes who sleeps.
    void Raise();
    // Returns when it is no longer `old`, and sees what was written before Raise. Spins
    // for a while, then sleeps; returns how long it slept.
    std::chrono::nanoseconds WaitWhile(uint32_t old, std::chrono::nanoseconds spin);

   private:
    std::atomic<uint32_t> value_ = 0;
    std::atomic<int32_t> sleepers_ = 0;
  };

  // One thread's way through the barriers.
  //
  // It spins for `spin`, then sleeps. A sleep that was short says that another
  // thread needed this very core: spin less. One that was long gave the core away for
  // nothing, and waking a processor that has gone idle is slow: spin in full.
  struct alignas(64) Passage {
    uint32_t passed = 0;  // barriers
    std::chrono::nanoseconds spin = kMostSpin;
  };

  void Loop(int index);
  void End();

  const int count_;
  Work work_ = nullptr;  // with context_, written before rounds_ is raised
  void* context_ = nullptr;
  bool ending_ = false;  // written before rounds_ is raised
  Count rounds_;         // of Run; raised once more to end the threads
  // Barriers are passed in steps (dissemination, Hensgen, Finkel and Manber 1988): in
  // step s a thread tells the one 2^s further on and waits for the one 2^s before it;
  // after log2(count) steps it has heard of all.
  const int steps_;
  std::vector<Count> told_;        // [count][steps_]: how often each was told
  std::vector<Passage> passages_;  // each by its own thread
  std::vector<std::thread> threads_;
};

}  // namespace mnemon
