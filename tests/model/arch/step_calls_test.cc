// SPDX-License-Identifier: MIT
// What a step asks of the system once it is warm: nothing but to wake and to wait for
// its threads, and no memory.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "bench/allocation_count.h"
#include "model/kernels/cpu_operations.h"
#include "model/kernels/thread_pool.h"
#include "model/program/step_partition.h"
#include "model/sequence_registry/sequence_registry.h"
#include "tests/model/arch/variants.h"

namespace mnemon {
namespace {

constexpr int kAllocated = 3, kFailed = 4;

// From here on any system call but those of waiting and of ending kills the process:
// SIGSYS.
void AllowOnlyToWait() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(kFailed);
  // For the threads of the pool as well.
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
              &program) != 0) {
    _exit(kFailed);
  }
}

// In a process of its own.
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
  AllowOnlyToWait();
  const AllocationCount before = CountAllocations();
  for (int i = 0; i < 20; ++i) step();
  _exit((CountAllocations() - before).calls == 0 ? 0 : kAllocated);
}

class StepCallsTest : public testing::TestWithParam<ModelConfig> {
 protected:
  void Watch(int32_t sessions);
};

void StepCallsTest::Watch(int32_t sessions) {
  for (const std::string& target : CpuTargets()) {
    SCOPED_TRACE(target);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) StepUnderWatch(GetParam(), target, sessions);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_FALSE(WIFSIGNALED(status))
        << "killed by signal " << WTERMSIG(status) << ": a step made a system call";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "3: it allocated; 4: it could not run";
  }
}

TEST_P(StepCallsTest, NeitherCallsTheSystemNorAllocates) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  Watch(3);
}

TEST_P(StepCallsTest, NorWhereEachWorkerGoesAlone) {
  if (!CountsAllocations()) GTEST_SKIP() << "sanitizers call the system themselves";
  Watch(2 * kRowsAlone + 3);
}

INSTANTIATE_TEST_SUITE_P(Variants, StepCallsTest,
                         testing::ValuesIn(AutoregressiveVariants()), VariantName);

}  // namespace
}  // namespace mnemon
