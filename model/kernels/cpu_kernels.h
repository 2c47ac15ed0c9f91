// SPDX-License-Identifier: MIT
// The operations of kernels.h by a pool of threads.
#pragma once

#include <memory>
#include <vector>

#include "base/aligned_floats.h"
#include "model/kernels/cpu_operations.h"
#include "model/kernels/kernels.h"
#include "model/kernels/thread_pool.h"

namespace mnemon {

class CpuKernels {
 public:
  // Both must outlive it.
  CpuKernels(const CpuOperations& operations, ThreadPool& pool);
  ~CpuKernels();

  const char* target() const { return operations_.target; }

  // Room for what a call needs aside: the most of ScratchFloats over all calls to come.
  // May throw std::bad_alloc.
  void Reserve(int64_t floats);

  // Every worker of the pool calls step(kernels) with its own view, and does its share
  // of each operation. One thread at a time, and one CpuKernels of a pool at a time.
  template <class Step>
  void Run(const Step& step) {
    OnPool([&](int index) { step(together(index)); });
  }

  // Likewise step(kernels, index), each with a view that does whole operations and
  // whose Sync does nothing.
  template <class Step>
  void RunAlone(const Step& step) {
    OnPool([&](int index) { step(alone(index), index); });
  }

 private:
  class Worker;

  template <class Work>
  void OnPool(const Work& work) {
    pool_.Run([](void* given, int index) { (*static_cast<const Work*>(given))(index); },
              const_cast<Work*>(&work));
  }
  StepKernels& together(int index);
  StepKernels& alone(int index);

  const CpuOperations& operations_;
  ThreadPool& pool_;
  std::vector<AlignedFloats> scratch_;  // of each worker
  std::vector<std::unique_ptr<Worker>> together_, alone_;
};

}  // namespace mnemon
