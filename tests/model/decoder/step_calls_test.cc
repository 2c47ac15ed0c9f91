// SPDX-License-Identifier: MIT
// What a step asks of the system once it is warm: nothing but to wake and to wait for
// its threads, no memory, and no lock.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "bench/kernels/allocation_count.h"
#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/program/step/step_partition.h"
#include "model/sequence/make_model.h"
#include "model/state/block_recycler.h"
#include "tests/fakes/patience.h"
#include "tests/model/decoder/variants.h"
#include "tests/model/watch/lock_count.h"
#include "tests/model/watch/only_wait.h"

namespace mnemon {
namespace {

constexpr int kAllocated = 3, kFailed = 4, kLocked = 5;

// Runs in a process of its own.
[[noreturn]] void StepUnderWatch(const ModelConfig& config, const std::string& target,
                                 int32_t sessions) {
  const std::unique_ptr<Model> model = MakeTestModel(config);
  ThreadPool pool(2);
  const auto decoder = *MakeDecoder(*model, {.target = target, .pool = &pool});
  const auto arena = *StateArena::Create(decoder->spec(), {.slots = sessions});
  const std::vector<int32_t> tokens = {1, 2, 3};
  const int64_t length = std::min<int64_t>(3, SegmentationFree(config, 3));
  std::vector<Segment> segments(sessions);
  for (Segment& segment : segments) {
    segment = {.slot = *arena->Acquire(),
               .tokens = std::span(tokens).first(length),
               .logits = LogitsMode::kAll};
  }
  std::vector<float> logits(sessions * length * config.vocab);
  const auto step = [&] {
    if (!decoder->Step(segments, *arena, logits.data()).ok()) _exit(kFailed);
    for (const Segment& segment : segments) {
      if (decoder->spec().growing()) {
        arena->Truncate(segment.slot, 0);
      } else {
        arena->Reset(segment.slot);
      }
    }
  };
  step();
  if (!OnlyWait(pool)) _exit(kFailed);
  const AllocationCount before = CountAllocations();
  for (int i = 0; i < 20; ++i) step();
  _exit((CountAllocations() - before).calls == 0 ? 0 : kAllocated);
}

// Steps that each need a new block and a copy of the fixed entries, beside a recycler.
[[noreturn]] void StepIntoBlocksUnderWatch(const ModelConfig& config,
                                           const std::string& target) {
  constexpr int32_t kSessions = 3;
  const std::unique_ptr<Model> model = MakeTestModel(config);
  ThreadPool pool(2);
  BlockRecycler recycler;
  const auto decoder = *MakeDecoder(*model, {.target = target, .pool = &pool});
  const StateSpec& spec = decoder->spec();
  // So few that the recycler takes no more memory.
  constexpr int64_t kBlocks = 128;
  const auto arena = *StateArena::Create(
      spec, {.slots = kSessions, .blocks = kBlocks, .recycler = &recycler});
  const int32_t token = 1;
  std::vector<Segment> segments(kSessions);
  for (Segment& segment : segments)
    segment = {.slot = *arena->Acquire(), .tokens = std::span(&token, 1)};
  std::vector<float> logits(kSessions * config.vocab);
  const auto step = [&] {
    for (Segment& segment : segments) segment.position = arena->length(segment.slot);
    // The recycler may allocate meanwhile; the steps above are those of the pool.
    const AllocationCount before = CountAllocationsOfThread();
    const int64_t locks = CountLocks();
    if (!decoder->Step(segments, *arena, logits.data()).ok()) _exit(kFailed);
    const bool locked = CountLocks() != locks;
    const bool allocated = (CountAllocationsOfThread() - before).calls > 0;
    return allocated ? kAllocated : locked ? kLocked : 0;
  };
  // Start at the end of a block, or at the beginning for models that end before it.
  const int64_t begin = spec.max_positions() > kBlockPositions ? kBlockPositions : 0;
  for (int64_t i = 0; i < begin; ++i) step();
  arena->pools().FreeBlocks(kBlocks);
  arena->pools().FreeFixed(2 * kSessions);
  std::vector<SavedFixed> saved(kSessions);
  std::vector<std::unique_ptr<char[]>> filled;
  const auto cycle = [&] {
    for (int32_t i = 0; i < kSessions; ++i)
      saved[i] = arena->saved().SaveFixed(segments[i].slot);
    int64_t blocks = 0;
    for (const Segment& segment : segments)
      blocks += arena->BlocksNeeded(segment.slot, 1);
    if (spec.growing() && blocks != kSessions) _exit(kFailed);
    arena->pools().SetAside(blocks, spec.fixed_elements() > 0 ? kSessions : 0);
    const int result = step();
    for (int32_t i = 0; i < kSessions; ++i) {
      if (spec.growing()) arena->Truncate(segments[i].slot, begin);
      if (spec.fixed_elements() > 0)
        arena->saved().RestoreFixed(segments[i].slot, saved[i], begin);
      arena->saved().Drop(saved[i]);
    }
    // Else the next cycle would take blocks that have no header yet.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (arena->pools().blocks_recycling() > 0) {
      if (std::chrono::steady_clock::now() > end) _exit(kFailed);
    }
    return result;
  };
  cycle();
  // What is queued for the recycler between two steps takes memory, which the heap is
  // to have: steps themselves allocate nothing.
  mallopt(M_TOP_PAD, 1 << 22);
  for (int i = 0; i < 64; ++i) filled.push_back(std::make_unique<char[]>(1 << 15));
  filled.clear();
  if (!OnlyWait(pool)) _exit(kFailed);
  for (int i = 0; i < 20; ++i) {
    if (const int result = cycle(); result != 0) _exit(result);
  }
  _exit(0);
}

class StepCallsTest : public testing::TestWithParam<ModelConfig> {
 protected:
  // Calls `step` in a process of its own, which it ends, for each target.
  static void Watch(const std::function<void(const std::string& target)>& step);
};

void StepCallsTest::Watch(const std::function<void(const std::string& target)>& step) {
  for (const std::string& target : CpuTargets()) {
    SCOPED_TRACE(target);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) step(target);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_FALSE(WIFSIGNALED(status))
        << "killed by signal " << WTERMSIG(status) << ": a step made a system call";
    EXPECT_EQ(WEXITSTATUS(status), 0)
        << "3: it allocated; 4: it could not run; 5: it locked a mutex";
  }
}

TEST_P(StepCallsTest, NeitherCallsTheSystemNorAllocates) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  Watch([](const std::string& target) { StepUnderWatch(GetParam(), target, 3); });
}

TEST_P(StepCallsTest, NorWhereEachWorkerGoesAlone) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  Watch([](const std::string& target) {
    StepUnderWatch(GetParam(), target, 2 * kRowsAlone + 3);
  });
}

TEST_P(StepCallsTest, NorLocksWhereItNeedsBlocks) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  Watch(
      [](const std::string& target) { StepIntoBlocksUnderWatch(GetParam(), target); });
}

INSTANTIATE_TEST_SUITE_P(Variants, StepCallsTest,
                         testing::ValuesIn(AutoregressiveVariants()), VariantName);

}  // namespace
}  // namespace mnemon
