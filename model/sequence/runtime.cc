// SPDX-License-Identifier: MIT
#include "model/sequence/runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "base/out_of_memory.h"
#include "base/strings.h"

namespace mnemon {
namespace {

// Switches of the libraries under libtorch, looked up at run time, since another
// libtorch may lack them.
using SetThreads = void (*)(int);

SetThreads Find(const char* name) {
  return reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, name));
}

// OpenBLAS keeps a pool of its own; another BLAS follows OpenMP.
void SetBlasThreads(int threads) {
  static const SetThreads set = Find("openblas_set_num_threads");
  if (set != nullptr) set(threads);
}

// The width that libtorch's loops and an OpenMP BLAS use; each thread has its own
// value. at::set_num_threads sets it too, but restarts the threads of a third pool,
// which takes longer than a step of a small model.
void SetLoopThreads(int threads) {
  static const SetThreads set = Find("omp_set_num_threads");
  set != nullptr ? set(threads) : at::set_num_threads(threads);
}

}  // namespace

void InitTensorRuntime(int threads) {
  threads = std::max(threads, 1);
  at::set_num_threads(threads);
  SetBlasThreads(threads);
}

SingleThreaded::SingleThreaded() : threads_(at::get_num_threads()) {
  SetLoopThreads(1);
  SetBlasThreads(1);
}

SingleThreaded::~SingleThreaded() {
  SetLoopThreads(threads_);
  SetBlasThreads(threads_);
}

absl::Status RunTensors(const std::function<absl::Status()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError();
  } catch (const std::exception& error) {
    // libtorch's allocators throw this instead of bad_alloc.
    const std::string_view what = error.what();
    for (const char* memory : {"can't allocate memory", "out of memory"}) {
      if (what.find(memory) != what.npos) return OutOfMemoryError();
    }
    return absl::InternalError(StrCat("model step failed: ", what));
  }
}

std::string TensorLibraryVersion() { return TORCH_VERSION; }

std::string TensorNumerics(at::Device device) {
  std::string kind = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  if (device.is_cpu()) {
    // The only place where libtorch shows it to other programs.
    constexpr std::string_view kLabel = "CPU capability usage: ";
    const std::string all = at::show_config();
    const size_t at = all.find(kLabel);
    if (at != all.npos) {
      const size_t begin = at + kLabel.size();
      kind = all.substr(begin, all.find_first_of("\n ,", begin) - begin);
    }
  }
  return StrCat("libtorch ", TORCH_VERSION, ", ", kind);
}

}  // namespace mnemon
