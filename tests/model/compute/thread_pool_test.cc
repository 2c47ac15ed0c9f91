// SPDX-License-Identifier: MIT
#include "model/compute/thread_pool.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/process/process.h"
#include "gtest/gtest.h"
#include "model/operations/cpu_team.h"
#include "tests/fakes/flushing_float_mode.h"

namespace mnemon {
namespace {

// Calls work() on a thread that may use the first of our cores only, as may those that
// it makes.
template <class Work>
void OnOneCore(const Work& work) {
  std::thread([&] {
    cpu_set_t old, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(old), &old), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &old)) {
        CPU_SET(i, &one);
        break;
      }
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    work();
  }).join();
}

// Seconds of processor time that this process has used.
double Used() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, EveryThreadDoesItsPartOfEveryRound) {
  ThreadPool pool(GetParam());
  struct Context {
    std::array<int, 8> calls = {};
  } context;
  for (int round = 1; round <= 1000; ++round) {
    pool.Run([](void* c, int index) { ++static_cast<Context*>(c)->calls[index]; },
             &context);
    // Run returns when all have.
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(context.calls[i], i < pool.count() ? round : 0);
    }
  }
}

TEST_P(ThreadPoolTest, NobodyPassesABarrierBeforeAllHaveCome) {
  ThreadPool pool(GetParam());
  struct Context {
    ThreadPool* pool;
    std::array<int, 8> at = {};
    std::array<bool, 8> fault = {};
  } context{&pool};
  pool.Run(
      [](void* given, int index) {
        auto& c = *static_cast<Context*>(given);
        for (int round = 1; round <= 1000; ++round) {
          c.at[index] = round;
          c.pool->Barrier(index);
          for (int i = 0; i < c.pool->count(); ++i) {
            if (c.at[i] != round) c.fault[index] = true;
          }
          c.pool->Barrier(index);
        }
      },
      &context);
  EXPECT_EQ(context.fault, (std::array<bool, 8>{}));
}

TEST_P(ThreadPoolTest, WakesFromSleep) {
  ThreadPool pool(GetParam());
  std::atomic<int> calls = 0;
  for (int round = 1; round <= 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // beyond the spin
    pool.Run([](void* c, int) { ++*static_cast<std::atomic<int>*>(c); }, &calls);
    EXPECT_EQ(calls, round * pool.count());
  }
}

// Made by a thread that flushes them, and run by one that does.
TEST_P(ThreadPoolTest, EveryThreadComputesSubnormals) {
  InitProcess();
  std::array<bool, 8> computes = {};
  const auto run = [&](ThreadPool& pool) {
    computes.fill(false);
    pool.Run(
        [](void* given, int index) {
          (*static_cast<std::array<bool, 8>*>(given))[index] = ComputesSubnormals();
        },
        &computes);
    return std::count(computes.begin(), computes.end(), true);
  };
  ThreadPool pool(GetParam());
  EXPECT_EQ(run(pool), pool.count());
  const FlushingFloatMode flushing;
  EXPECT_EQ(run(pool), pool.count());
  ThreadPool made_flushing(GetParam());
  EXPECT_EQ(run(made_flushing), pool.count());
  EXPECT_FALSE(ComputesSubnormals());  // as it was
}

INSTANTIATE_TEST_SUITE_P(Counts, ThreadPoolTest, testing::Values(1, 2, 3, 4, 5, 7, 8));

// Each would spin while the other, which it waits for, needs the core: 40 us a barrier.
TEST(ThreadPool, ThreadsThatShareACoreDoNotSpin) {
  OnOneCore([] {
    constexpr int kBarriers = 1000;
    ThreadPool pool(2);
    // The least of some turns: caches that others have emptied cost time, too.
    double least = 1;
    for (int turn = 0; turn < 20 && least >= 20e-6; ++turn) {
      const double before = Used();
      pool.Run(
          [](void* given, int index) {
            for (int i = 0; i < kBarriers; ++i) {
              static_cast<ThreadPool*>(given)->Barrier(index);
            }
          },
          &pool);
      least = std::min(least, (Used() - before) / kBarriers);
    }
    EXPECT_LT(least, 20e-6) << "seconds of processor time per barrier";
  });
}

TEST(UsableCores, IsWithinTheMachine) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(UsableCores, FollowsTheAffinityMask) {
  int cores = 0;
  OnOneCore([&] { cores = UsableCores(); });
  EXPECT_EQ(cores, 1);
}

TEST(PoolThreads, AreNoMoreThanCores) {
  EXPECT_EQ(PoolThreads(1), 1);
  EXPECT_EQ(PoolThreads(1024), UsableCores());
  OnOneCore([] { EXPECT_EQ(PoolThreads(2), 1); });
}

TEST(UsableCores, FollowsTheQuotaOfTheProcesssOwnGroup) {
  const std::string root =
      testing::TempDir() + "/mnemon-quota-" + std::to_string(getpid());
  const auto write = [&](const std::string& path, const char* text) {
    std::filesystem::create_directories(
        (root + path).substr(0, (root + path).rfind('/')));
    std::ofstream(root + path) << text;
  };
  write("/proc/self/cgroup", "0::/mnemon\n");
  write("/proc/self/mountinfo", "31 23 0:28 / /cgroup rw - cgroup2 cgroup2 rw\n");
  // The root group never has this file; that of the process counts.
  write("/cgroup/mnemon/cpu.max", "150000 100000\n");
  EXPECT_EQ(UsableCores(root), 1);
  write("/cgroup/mnemon/cpu.max", "100 100000\n");
  EXPECT_EQ(UsableCores(root), 1);
  std::filesystem::remove_all(root);
}

TEST(CpuTargets, TheBestFirstTheReferenceLast) {
  const std::vector<std::string> targets = CpuTargets();
  ASSERT_GE(targets.size(), 2u);
  EXPECT_EQ(targets.back(), "reference");
  EXPECT_EQ(FindCpuOperations("").value(), FindCpuOperations(targets[0]).value());
  const auto unknown = FindCpuOperations("abacus");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().message().find(targets[0]), std::string::npos);
}

}  // namespace
}  // namespace mnemon
