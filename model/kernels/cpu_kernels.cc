// SPDX-License-Identifier: MIT
#include "model/kernels/cpu_kernels.h"

#include "base/check.h"

namespace mnemon {

class CpuKernels::Worker final : public StepKernels {
 public:
  // `pool` null: alone.
  Worker(const CpuOperations& operations, ThreadPool* pool, Share share,
         AlignedFloats& scratch)
      : operations_(operations), pool_(pool), share_(share), scratch_(scratch) {}

  void Embed(const EmbedCall& call) override { operations_.embed(call, share_); }
  void Linear(const LinearCall& call) override {
    operations_.linear(call, share_, Scratch(ScratchFloats(call)));
  }
  void Append(const AppendCall& call) override { operations_.append(call, share_); }
  void Attend(const AttendCall& call) override {
    operations_.attend(call, share_, Scratch(ScratchFloats(call)));
  }
  void FastWeights(const FastWeightCall& call) override {
    operations_.fast_weights(call, share_, Scratch(ScratchFloats(call)));
  }
  void Mix(const MixCall& call) override { operations_.mix(call, share_); }
  void Norm(const NormCall& call) override { operations_.norm(call, share_); }
  void Softmax(const SoftmaxCall& call) override { operations_.softmax(call, share_); }
  void Sync() override {
    if (pool_ != nullptr) pool_->Barrier(share_.index);
  }

 private:
  float* Scratch(int64_t floats) {
    MNEMON_CHECK(floats <= static_cast<int64_t>(scratch_.size()));
    return scratch_.data();
  }

  const CpuOperations& operations_;
  ThreadPool* const pool_;
  const Share share_;
  AlignedFloats& scratch_;
};

CpuKernels::CpuKernels(const CpuOperations& operations, ThreadPool& pool)
    : operations_(operations), pool_(pool), scratch_(pool.count()) {
  for (int i = 0; i < pool.count(); ++i) {
    together_.push_back(std::make_unique<Worker>(operations, &pool,
                                                 Share{i, pool.count()}, scratch_[i]));
    alone_.push_back(
        std::make_unique<Worker>(operations, nullptr, Share{}, scratch_[i]));
  }
}

CpuKernels::~CpuKernels() = default;

void CpuKernels::Reserve(int64_t floats) {
  for (AlignedFloats& scratch : scratch_) {
    if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(floats);
  }
}

StepKernels& CpuKernels::together(int index) { return *together_[index]; }
StepKernels& CpuKernels::alone(int index) { return *alone_[index]; }

}  // namespace mnemon
