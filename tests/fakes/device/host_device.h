// SPDX-License-Identifier: MIT
// A device that is not the CPU and yet computes in host memory, by the CPU's own
// kernels. An operation that mixes devices fails on it as on a GPU.
#pragma once

#include <c10/core/Device.h>

namespace mnemon {

// Registers the device with libtorch on first use. Every operation that takes tensors
// of this device and of another one throws, as on a GPU: only `to`, `copy_` and tensors
// without dimensions may cross. Its memory is opaque: data_ptr() of its tensors is an
// address that must not be accessed.
at::Device HostDevice();

// The GPU of this machine, or HostDevice() if there is none. One of the two, since
// autograd of libtorch supports one kind of accelerator per process.
at::Device AcceleratorForTests();

}  // namespace mnemon
