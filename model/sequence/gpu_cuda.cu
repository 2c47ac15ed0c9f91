// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>

#include "model/sequence/gpu.h"

namespace mnemon {

Gpu FindGpu() {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  cudaDeviceProp properties = {};
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&properties, 0);
  if (error == cudaSuccess) return {properties.name, ""};
  return {"", std::string("no GPU can be used here: ") + cudaGetErrorString(error)};
}

}  // namespace mnemon
