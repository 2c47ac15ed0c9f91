// SPDX-License-Identifier: MIT
// The end of a sub-layer in step programs: x + scale behind(..), normed again by
// `after` (model/description/description.h).
#pragma once

#include "model/compute/kernels.h"

namespace mnemon {

struct SubLayerEndOp {
  NormView behind, after;  // no gain: none
  float scale = 1.0f;

  bool normed() const { return behind.gain != nullptr || after.gain != nullptr; }
};

}  // namespace mnemon
