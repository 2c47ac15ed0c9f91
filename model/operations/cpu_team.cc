// SPDX-License-Identifier: MIT
#include "model/operations/cpu_team.h"

#include "base/check.h"

namespace mnemon {

float* CpuWorker::Scratch(int64_t floats) {
  MNEMON_CHECK(floats <= static_cast<int64_t>(scratch_.size()));
  return scratch_.data();
}

CpuTeam::CpuTeam(const CpuOperations& operations, ThreadPool& pool)
    : pool_(pool), scratch_(pool.count()) {
  for (int i = 0; i < pool.count(); ++i) {
    together_.emplace_back(operations, &pool, Share{i, pool.count()}, scratch_[i]);
    alone_.emplace_back(operations, nullptr, Share{}, scratch_[i]);
  }
}

void CpuTeam::Reserve(int64_t floats) {
  for (AlignedFloats& scratch : scratch_) {
    if (static_cast<int64_t>(scratch.size()) < floats) scratch.resize(floats);
  }
}

bool CpuTeam::TakeFinite() {
  bool finite = true;
  for (std::vector<CpuWorker>* const workers : {&together_, &alone_}) {
    for (CpuWorker& worker : *workers) finite = worker.TakeFinite() && finite;
  }
  return finite;
}

}  // namespace mnemon
