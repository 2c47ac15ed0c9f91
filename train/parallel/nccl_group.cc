// SPDX-License-Identifier: MIT
// Process groups by NCCL, which the torch wheel has: tensors on GPUs.
#include <cstdlib>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "train/parallel/c10d_group.h"

namespace mnemon {

absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcessGroup(
    const Launch& launch, bool on_gpu, std::chrono::seconds timeout) {
  if (launch.size == 1) return MakeSingleProcess();
  if (!on_gpu) {
    return absl::UnimplementedError(
        "this build joins processes on GPUs alone (--device cuda): on CPUs it takes a "
        "build with Debian's libtorch");
  }
  // Without it a wait only orders streams, and a lost process ends this one.
  setenv("TORCH_NCCL_BLOCKING_WAIT", "1", /*overwrite=*/0);
  const at::Device device(at::kCUDA, 0);
  return JoinC10dGroup(launch, timeout, device, [&](const auto& store) {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, launch.rank, launch.size,
                                                       options);
  });
}

}  // namespace mnemon
