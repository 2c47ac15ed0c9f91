// SPDX-License-Identifier: MIT
// The equations of calls.h as they are written, nothing vectorised by hand.
#pragma once

#include "model/blocks/fast_weights/calls.h"

namespace mnemon::reference {

// As that of CpuOperations.
bool FastWeights(const FastWeightCall& call, Share share, float* scratch);

}  // namespace mnemon::reference
