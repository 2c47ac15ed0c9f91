// SPDX-License-Identifier: MIT
// What an arena does when the system gives it no more memory, in a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "bench/kernels/allocation_count.h"
#include "gtest/gtest.h"
#include "model/compute/kernels.h"
#include "model/state/arena.h"

namespace mnemon {
namespace {

constexpr int kNoLimit = 1, kNotRefused = 2, kOtherError = 3, kCounted = 4, kLost = 5;

// No more than 4 MiB of addresses from here on.
bool LimitMemory() {
  int64_t pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> pages)) return false;
  const rlim_t most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (4 << 20);
  const rlimit limit = {.rlim_cur = most, .rlim_max = most};
  return setrlimit(RLIMIT_AS, &limit) == 0;
}

int TakeMoreThanThereIs() {
  constexpr int64_t kBlocks = 100;  // of 1 MiB
  const StateSpec spec{{{.name = "rows",
                         .shape = {16384},
                         .growth = Growth::kAppend,
                         .capacity = kBlocks * kBlockPositions}}};
  const auto arena = *StateArena::Create(spec, {.slots = 1, .blocks = kBlocks});
  const int32_t slot = *arena->Acquire();
  const auto reserve = [&](int64_t blocks) {
    return arena->Reserve(slot, blocks * kBlockPositions);
  };
  if (!reserve(10).ok()) return kNoLimit;
  arena->Truncate(slot, 0);
  if (!LimitMemory()) return kNoLimit;
  int64_t most = 10;
  while (reserve(most + 1).ok()) {
    arena->Truncate(slot, 0);
    if (++most == kBlocks) return kNotRefused;
  }
  const absl::Status refused = reserve(kBlocks);
  if (GetErrorDetail(refused)->reason != "OUT_OF_MEMORY") return kOtherError;
  if (arena->pools().blocks_used() != 0) return kCounted;
  return reserve(most).ok() ? 0 : kLost;
}

TEST(StateArena, WhatWasTakenBeforeMemoryRanOutIsThereAgain) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers need addresses themselves";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(TakeMoreThanThereIs());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << "1: no limit; 2: not refused; 3: another error; 4: counted; 5: blocks lost";
}

}  // namespace
}  // namespace mnemon
