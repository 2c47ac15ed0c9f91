// SPDX-License-Identifier: MIT
// Processes that meet by Gloo, which Debian's libtorch brings: tensors on the CPU.
#include <cstdlib>
#include <memory>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "train/parallel/c10d_group.h"

namespace mnemon {
namespace {

// The network interface that others reach this process at: that which PyTorch's
// variable names; on one machine that of the address they meet at; else that of the
// host's name.
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
