// SPDX-License-Identifier: MIT
// The operations of kernels.h with vector instructions.
#pragma once

#include <vector>

#include "model/operations/cpu_operations.h"

namespace mnemon {

// AllCpuOperations() without the reference. Called once, by one thread.
std::vector<CpuOperations> SimdOperations();

}  // namespace mnemon
