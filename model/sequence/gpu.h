// SPDX-License-Identifier: MIT
// The GPU of this process, as far as this build can see one: gpu_cuda.cu where CUDA is
// built in, gpu_none.cc elsewhere. C++17, for nvcc.
#pragma once

#include <string>

namespace mnemon {

struct Gpu {
  std::string name;   // "NVIDIA H100 80GB HBM3"; empty: none
  std::string fault;  // why there is none; empty: there is one
};

// The first one that the driver shows.
Gpu FindGpu();

}  // namespace mnemon
