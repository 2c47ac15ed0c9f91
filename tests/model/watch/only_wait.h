// SPDX-License-Identifier: MIT
// A filter of system calls for tests of code that must make none.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <iterator>

#include "model/compute/thread_pool.h"

namespace mnemon {

// Makes any further system call of this thread, except those for waiting and for
// ending, kill the process with SIGSYS. Returns false if there is no such filter.
inline bool OnlyWait() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const sock_fprog program = {.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

// The same for all threads of a pool, including this one.
inline bool OnlyWait(ThreadPool& pool) {
  std::atomic<bool> all = true;
  pool.Run(
      [](void* context, int) {
        if (!OnlyWait()) static_cast<std::atomic<bool>*>(context)->store(false);
      },
      &all);
  return all;
}

}  // namespace mnemon
