// SPDX-License-Identifier: MIT
// The operations of kernels.h by a team of threads.
#pragma once

#include <memory>
#include <vector>

#include "model/kernels/cpu_operations.h"
#include "model/kernels/kernels.h"
#include "model/kernels/thread_team.h"

namespace mnemon {

class CpuKernels {
 public:
  // Both must outlive it.
  CpuKernels(const CpuOperations& operations, ThreadTeam& team);
  ~CpuKernels();

  const char* target() const { return operations_.target; }

  // Room for what a call needs aside: the most of ScratchFloats over all calls to come.
  // May throw std::bad_alloc.
  void Reserve(int64_t floats);

  // Every worker of the team calls step(kernels) with its own view. One thread at a
  // time, and one CpuKernels of a team at a time.
  template <class Step>
  void Run(const Step& step) {
    struct Context {
      CpuKernels* self;
      const Step* step;
    } context{this, &step};
    team_.Run(
        [](void* given, int index) {
          const auto* c = static_cast<const Context*>(given);
          (*c->step)(c->self->worker(index));
        },
        &context);
  }

 private:
  class Worker;
  StepKernels& worker(int index);

  const CpuOperations& operations_;
  ThreadTeam& team_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace mnemon
