// SPDX-License-Identifier: MIT
// The operations of steps as a device computes them (model/operations/cuda), on the
// emulator, in the form of the CPU's: tests that hold for every instruction set hold
// for the device too. Each call is a launch of 1 to 8 blocks of 32 to 128 threads, with
// more or less shared memory, drawn anew each time; together the blocks are the call's
// worker. `norm` and `softmax`, which only the encoder uses, are the CPU's.
#pragma once

#include "model/operations/cpu_operations.h"

namespace mnemon {

// For any thread.
const CpuOperations& DeviceOperations();

// False with ThreadSanitizer, which must be told of every change of stacks.
bool CanEmulateDevices();

}  // namespace mnemon
