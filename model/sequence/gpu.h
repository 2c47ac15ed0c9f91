// SPDX-License-Identifier: MIT
// The GPU of this process, if this build supports one: gpu_cuda.cu with CUDA,
// gpu_none.cc otherwise. C++17, for nvcc.
#pragma once

#include <string>

namespace mnemon {

struct Gpu {
  std::string name;   // "NVIDIA H100 80GB HBM3"; empty: none
  std::string fault;  // why there is none; empty: there is one
};

// The first GPU that the driver reports.
Gpu FindGpu();

}  // namespace mnemon
