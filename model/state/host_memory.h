// SPDX-License-Identifier: MIT
// StateMemory of this process, in huge pages if the system has them.
#pragma once

#include <memory>

#include "model/state/state_memory.h"

namespace mnemon {

std::unique_ptr<StateMemory> MakeHostMemory();

}  // namespace mnemon
