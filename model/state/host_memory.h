// SPDX-License-Identifier: MIT
// States in the memory of this process, in huge pages where the system has them.
#pragma once

#include <memory>

#include "model/state/state_memory.h"

namespace mnemon {

std::unique_ptr<StateMemory> MakeHostMemory();

}  // namespace mnemon
