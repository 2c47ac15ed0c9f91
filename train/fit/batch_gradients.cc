// SPDX-License-Identifier: MIT
#include "train/fit/batch_gradients.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<BatchGradients>> MakeBatchGradients(
    const TrainConfig& config, const Model& model, const Parameters& parameters,
    WorkerPool& pool, ProcessGroup& group) {
  if (config.backward == Backward::kFused && config.precision == Precision::kFp32 &&
      parameters.values().is_cpu()) {
    auto fused = MakeFusedGradients(config, model, parameters, pool, group);
    if (fused != nullptr) return fused;
  }
  return MakeAutogradGradients(config, parameters, pool, group);
}

}  // namespace mnemon
