// SPDX-License-Identifier: MIT
#include "model/operations/cuda/step_kernels.h"

#include "model/operations/cuda/step_kernel.h"

namespace mnemon {
namespace {

// Least blocks per processor, which bounds registers.
constexpr int LeastBlocks(StepCallKind kind) {
  return kind == StepCallKind::kTiledLinear ? 2 : 1;
}

template <StepCallKind kind>
__global__ void __launch_bounds__(OneCallThreads(kind), LeastBlocks(kind))
    RunOneCall(const __grid_constant__ StepLaunch launch) {
  device::OneCall<kind>(launch);
}

__global__ void __launch_bounds__(kWholeStepThreads, 1)
    RunWholeStep(const __grid_constant__ StepLaunch launch) {
  device::WholeStep(launch);
}

template <StepCallKind kind>
const void* Kernel() {
  return reinterpret_cast<const void*>(&RunOneCall<kind>);
}

}  // namespace

const void* OneCallKernel(StepCallKind kind) {
  switch (kind) {
    case StepCallKind::kPrepare:
      return Kernel<StepCallKind::kPrepare>();
    case StepCallKind::kEmbed:
      return Kernel<StepCallKind::kEmbed>();
    case StepCallKind::kLinear:
      return nullptr;
    case StepCallKind::kPrepareRows:
      return Kernel<StepCallKind::kPrepareRows>();
    case StepCallKind::kTiledLinear:
      return Kernel<StepCallKind::kTiledLinear>();
    case StepCallKind::kTurn:
      return Kernel<StepCallKind::kTurn>();
    case StepCallKind::kAppend:
      return Kernel<StepCallKind::kAppend>();
    case StepCallKind::kAttend:
      return Kernel<StepCallKind::kAttend>();
    case StepCallKind::kFastWeights:
      return Kernel<StepCallKind::kFastWeights>();
    case StepCallKind::kMix:
      return Kernel<StepCallKind::kMix>();
    case StepCallKind::kNorm:
      return Kernel<StepCallKind::kNorm>();
    case StepCallKind::kKeep:
      return Kernel<StepCallKind::kKeep>();
    case StepCallKind::kSample:
      return Kernel<StepCallKind::kSample>();
    case StepCallKind::kNextWave:
      return Kernel<StepCallKind::kNextWave>();
  }
  return nullptr;
}

const void* WholeStepKernel() { return reinterpret_cast<const void*>(&RunWholeStep); }

}  // namespace mnemon
