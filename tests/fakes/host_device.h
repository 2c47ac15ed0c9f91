// SPDX-License-Identifier: MIT
// A device that is not the CPU and yet computes in host memory, by the CPU's own
// kernels. An operation that mixes devices fails on it as on a GPU.
#pragma once

#include <c10/core/Device.h>

namespace mnemon {

// On first use registers the device with libtorch. Every operation that takes tensors
// of this device and of another one throws, as on a GPU: only `to`, `copy_` and tensors
// without dimensions may cross. Its memory is opaque: data_ptr() of a tensor here gives
// an address that no access survives.
at::Device HostDevice();

// The GPU of this machine; where there is none, HostDevice(). One of the two, since
// autograd of libtorch knows one kind of accelerator per process.
at::Device AcceleratorForTests();

}  // namespace mnemon
