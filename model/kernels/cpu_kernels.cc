// SPDX-License-Identifier: MIT
#include "model/kernels/cpu_kernels.h"

#include "base/check.h"

namespace mnemon {

class CpuKernels::Worker final : public StepKernels {
 public:
  // `team` null: alone.
  Worker(const CpuOperations& operations, ThreadTeam* team, Share share,
         AlignedFloats& scratch)
      : operations_(operations), team_(team), share_(share), scratch_(scratch) {}

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
  void Sync() override {
    if (team_ != nullptr) team_->Barrier(share_.index);
  }

 private:
  float* Scratch(int64_t floats) {
    MNEMON_CHECK(floats <= static_cast<int64_t>(scratch_.size()));
    return scratch_.data();
  }

  const CpuOperations& operations_;
  ThreadTeam* const team_;
  const Share share_;
  AlignedFloats& scratch_;
};

CpuKernels::CpuKernels(const CpuOperations& operations, ThreadTeam& team)
    : operations_(operations), team_(team), scratch_(team.count()) {
  for (int i = 0; i < team.count(); ++i) {
    together_.push_back(std::make_unique<Worker>(operations, &team,
                                                 Share{i, team.count()}, scratch_[i]));
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
