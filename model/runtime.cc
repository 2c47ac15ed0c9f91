// SPDX-License-Identifier: MIT
#include "model/runtime.h"

#include <dlfcn.h>

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/version.h>

namespace mnemon {
namespace {

// OpenBLAS keeps a pool of its own, where libtorch was built on it. Looked up at run
// time: another BLAS has no such switch and follows OpenMP.
void SetBlasThreads(int threads) {
  using Set = void (*)(int);
  static const auto set =
      reinterpret_cast<Set>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace

void InitTensorRuntime(int threads) {
  threads = std::max(threads, 1);
  at::set_num_threads(threads);
  SetBlasThreads(threads);
}

SingleThreaded::SingleThreaded() : threads_(at::get_num_threads()) {
  InitTensorRuntime(1);
}

SingleThreaded::~SingleThreaded() { InitTensorRuntime(threads_); }

std::string TensorLibraryVersion() { return TORCH_VERSION; }

}  // namespace mnemon
