// SPDX-License-Identifier: MIT
// Process groups by Gloo, which Debian's libtorch has: tensors on the CPU.
#include <cstdlib>
#include <memory>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "train/parallel/c10d_group.h"

namespace mnemon {
namespace {

// The network interface at which others reach this process: the one that PyTorch's
// variable names, else that of the meeting address on a single machine, else that of
// the host name.
std::shared_ptr<gloo::transport::Device> MakeDevice(const Launch& launch) {
  using Group = c10d::ProcessGroupGloo;
  const char* const name = std::getenv("GLOO_SOCKET_IFNAME");
  if (name != nullptr && *name != '\0') return Group::createDeviceForInterface(name);
  const bool local = launch.address == "localhost" || launch.address == "::1" ||
                     launch.address.rfind("127.", 0) == 0;
  return local ? Group::createDeviceForHostname(launch.address)
               : Group::createDefaultDevice();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcessGroup(
    const Launch& launch, bool on_gpu, std::chrono::seconds timeout) {
  if (launch.size == 1) return MakeSingleProcess();
  if (on_gpu) {
    return absl::UnimplementedError(
        "this build joins processes on CPUs alone: on GPUs it takes a build with the "
        "torch wheel, see docs/gpu.md");
  }
  return JoinC10dGroup(launch, timeout, at::kCPU, [&](const auto& store) {
    const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(MakeDevice(launch));
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, launch.rank, launch.size,
                                                       options);
  });
}

}  // namespace mnemon
