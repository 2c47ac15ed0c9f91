// SPDX-License-Identifier: MIT
#include "model/kernels/cpu_kernels.h"

#include "base/check.h"

namespace mnemon {

class CpuKernels::Worker final : public StepKernels {
 public:
  Worker(const CpuOperations& operations, ThreadTeam& team)
      : operations_(operations), team_(team) {}

  void Embed(const EmbedCall& call) override { operations_.embed(call, share_); }
  void Linear(const LinearCall& call) override {
    operations_.linear(call, share_, Scratch(ScratchFloats(call)));
  }
  void Append(const AppendCall& call) override { operations_.append(call, share_); }
  void Attend(const AttendCall& call) override { operations_.attend(call, share_); }
  void FastWeights(const FastWeightCall& call) override {
    operations_.fast_weights(call, share_, Scratch(ScratchFloats(call)));
  }
  void Mix(const MixCall& call) override { operations_.mix(call, share_); }
  void Sync() override {
    if (share_.count > 1) team_.Barrier(share_.index);
  }

  void Take(Share share) { share_ = share; }
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
  Share share_;  // of the run
  std::vector<float> scratch_;
};

CpuKernels::CpuKernels(const CpuOperations& operations, ThreadTeam& team)
    : operations_(operations), team_(team) {
  for (int i = 0; i < team.count(); ++i) {
    workers_.push_back(std::make_unique<Worker>(operations, team));
  }
}

CpuKernels::~CpuKernels() = default;

void CpuKernels::Reserve(int64_t floats) {
  for (const std::unique_ptr<Worker>& worker : workers_) worker->Reserve(floats);
}

StepKernels& CpuKernels::worker(Share share) {
  Worker& worker = *workers_[share.index];
  worker.Take(share);
  return worker;
}

}  // namespace mnemon
