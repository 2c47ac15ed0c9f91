// SPDX-License-Identifier: MIT
// A pool of threads that executes the operations of kernels.h, each worker its share.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/memory/aligned_floats.h"
#include "model/compute/kernels.h"
#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"

namespace mnemon {

// One worker's part of the operations. Together: every worker makes the same calls in
// the same order; a Sync must come between a call and one that reads or overwrites what
// it touched. Alone: each call is computed as a whole.
class CpuWorker {
 public:
  // `pool` null: alone. All arguments must outlive it.
  CpuWorker(const CpuOperations& operations, ThreadPool* pool, Share share,
            AlignedFloats& scratch)
      : operations_(operations), pool_(pool), share_(share), scratch_(scratch) {}

  Share share() const { return share_; }

  void Embed(const EmbedCall& call) { operations_.embed(call, share_); }
  void Linear(const LinearCall& call) {
    operations_.linear(call, share_, Scratch(ScratchFloats(call)));
  }
  void Parts(const PartsCall& call) {
    operations_.parts(call, share_, Scratch(ScratchFloats(call)));
  }
  void Fold(const FoldCall& call) { operations_.fold(call, share_); }
  void Turn(const TurnCall& call) { operations_.turn(call, share_); }
  void Append(const AppendCall& call) {
    if (!operations_.append(call, share_)) finite_ = false;
  }
  void Attend(const AttendCall& call) {
    operations_.attend(call, share_, Scratch(ScratchFloats(call)));
  }
  void FastWeights(const FastWeightCall& call) {
    float* const scratch = Scratch(ScratchFloats(call));
    if (!operations_.fast_weights(call, share_, scratch)) finite_ = false;
  }
  void Mix(const MixCall& call) { operations_.mix(call, share_); }
  void Norm(const NormCall& call) { operations_.norm(call, share_); }
  void Softmax(const SoftmaxCall& call) { operations_.softmax(call, share_); }

  // Whether all Appends and FastWeights since the last call left states finite.
  bool TakeFinite() { return std::exchange(finite_, true); }

  // Waits until all workers have arrived.
  void Sync() {
    if (pool_ != nullptr) pool_->Barrier(share_.index);
  }

 private:
  float* Scratch(int64_t floats);

  const CpuOperations& operations_;
  ThreadPool* const pool_;
  const Share share_;
  AlignedFloats& scratch_;
  bool finite_ = true;
};

class CpuTeam {
 public:
  // Both must outlive it.
  CpuTeam(const CpuOperations& operations, ThreadPool& pool);

  int size() const { return pool_.count(); }

  // Reserves scratch: the maximum of ScratchFloats over all calls to come. May throw
  // std::bad_alloc.
  void Reserve(int64_t floats);

  // Every worker of the pool calls work(worker), together. One thread at a time, and
  // one CpuTeam per pool at a time.
  template <class Work>
  void Run(const Work& work) {
    OnPool([&](int index) { work(together_[index]); });
  }

  // The same with work(worker, index), each worker alone.
  template <class Work>
  void RunAlone(const Work& work) {
    OnPool([&](int index) { work(alone_[index], index); });
  }

  // The same with work(together, alone, index), for work that is partly shared.
  template <class Work>
  void RunBoth(const Work& work) {
    OnPool([&](int index) { work(together_[index], alone_[index], index); });
  }

  // CpuWorker::TakeFinite over all workers. Call between two Runs.
  bool TakeFinite();

 private:
  template <class Work>
  void OnPool(const Work& work) {
    pool_.Run([](void* given, int index) { (*static_cast<const Work*>(given))(index); },
              const_cast<Work*>(&work));
  }

  ThreadPool& pool_;
  std::vector<AlignedFloats> scratch_;  // one per worker
  std::vector<CpuWorker> together_, alone_;
};

}  // namespace mnemon
