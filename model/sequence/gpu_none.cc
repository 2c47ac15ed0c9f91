// SPDX-License-Identifier: MIT
#include "model/sequence/gpu.h"

namespace mnemon {

Gpu FindGpu() { return {"", "this build has no CUDA; build with the preset cuda"}; }

}  // namespace mnemon
