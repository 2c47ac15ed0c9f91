// SPDX-License-Identifier: MIT
// Direct implementation of the equations in calls.h, not vectorised by hand.
#pragma once

#include "model/blocks/fast_weights/calls.h"

namespace mnemon::reference {

// See CpuOperations.
bool FastWeights(const FastWeightCall& call, Share share, float* scratch);

}  // namespace mnemon::reference
