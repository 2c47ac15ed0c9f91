// SPDX-License-Identifier: MIT
#include "model/kernels/cuda/step_kernels.h"

#include "model/kernels/cuda/step_kernel.h"

namespace mnemon {
namespace {

template <StepCallKind kind>
__global__ void __launch_bounds__(OneCallThreads(kind), 1)
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
      return Kernel<StepCallKind::kLinear>();
    case StepCallKind::kAppend:
      return Kernel<StepCallKind::kAppend>();
    case StepCallKind::kAttend:
      return Kernel<StepCallKind::kAttend>();
    case StepCallKind::kFastWeights:
      return Kernel<StepCallKind::kFastWeights>();
    case StepCallKind::kMix:
      return Kernel<StepCallKind::kMix>();
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
