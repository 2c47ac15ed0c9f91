// SPDX-License-Identifier: MIT
#include "model/kernels/cpu_kernels.h"

#include "base/aligned_floats.h"
#include "base/check.h"

namespace mnemon {

class CpuKernels::Worker final : public StepKernels {
 public:
  Worker(const CpuOperations& operations, ThreadTeam& team, int index)
      : operations_(operations), team_(team), share_{index, team.count()} {}

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
  void Sync() override { team_.Barrier(share_.index); }

  void Reserve(int64_t floats) {
    if (static_cast<int64_t>(scratch_.size()) < floats) scratch_.resize(floats);
  }

 private:
  float* Scratch(int64_t floats) {
    MNEMON_CHECK(floats <= static_cast<int64_t>(scratch_.size()));
    return scratch_.data();
  }

  const CpuOperations& operations_;
  ThreadTeam& team_;
  const Share share_;
  AlignedFloats scratch_;
};

CpuKernels::CpuKernels(const CpuOperations& operations, ThreadTeam& team)
    : operations_(operations), team_(team) {
  for (int i = 0; i < team.count(); ++i) {
    workers_.push_back(std::make_unique<Worker>(operations, team, i));
  }
}

CpuKernels::~CpuKernels() = default;

void CpuKernels::Reserve(int64_t floats) {
  for (const std::unique_ptr<Worker>& worker : workers_) worker->Reserve(floats);
}

StepKernels& CpuKernels::worker(int index) { return *workers_[index]; }

}  // namespace mnemon
