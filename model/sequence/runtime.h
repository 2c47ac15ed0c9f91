// SPDX-License-Identifier: MIT
// Settings of libtorch: threads, and the conversion of its exceptions.
#pragma once

#include <functional>
#include <string>

#include <c10/core/Device.h>

#include "absl/status/status.h"

namespace mnemon {

// Sets the threads of libtorch's pool and of its BLAS to `threads` (at least 1). Call
// in main, before the first tensor operation. More threads than idle cores are far
// slower than one: both pools spin while they wait.
void InitTensorRuntime(int threads);

// While it exists, tensor operations of this thread run on one core. Process-wide for
// the BLAS: only one thread at a time may hold it.
class SingleThreaded {
 public:
  SingleThreaded();
  ~SingleThreaded();
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  const int threads_;
};

// Runs tensor operations and converts exceptions: RESOURCE_EXHAUSTED without memory,
// else INTERNAL.
absl::Status RunTensors(const std::function<absl::Status()>& run);

// "1.13.1"
std::string TensorLibraryVersion();

// What determines the bits of tensor operations besides their input: "libtorch 1.13.1,
// AVX512"; on a GPU, "libtorch 1.13.1, cuda".
std::string TensorNumerics(at::Device device);

}  // namespace mnemon
