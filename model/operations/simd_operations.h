// SPDX-License-Identifier: MIT
// The operations of kernels.h with vector instructions.
#pragma once

#include <vector>

#include "model/operations/cpu_operations.h"

namespace mnemon {

// Those of AllCpuOperations() but for the reference. One thread, once.
std::vector<CpuOperations> SimdOperations();

}  // namespace mnemon
