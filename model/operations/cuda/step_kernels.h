// SPDX-License-Identifier: MIT
// The kernels of a step for launches by the CUDA runtime. C++17.
#pragma once

#include "model/operations/cuda/step_call.h"

namespace mnemon {

// Functions whose one parameter is a StepLaunch, for cudaLaunchKernel.
const void* OneCallKernel(StepCallKind kind);
const void* WholeStepKernel();

}  // namespace mnemon
