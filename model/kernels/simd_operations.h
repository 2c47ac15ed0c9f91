// SPDX-License-Identifier: MIT
// The operations of kernels.h with vector instructions.
#pragma once

#include <vector>

#include "model/kernels/cpu_operations.h"

namespace mnemon {

// One table for each instruction set that this build and this machine have, the best
// first. One thread, once.
std::vector<CpuOperations> SimdOperations();

}  // namespace mnemon
