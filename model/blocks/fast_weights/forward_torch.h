// SPDX-License-Identifier: MIT
// Fast weights in sequence forms; see settings.h. There is no dropout inside.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/block_call_torch.h"
#include "model/blocks/fast_weights/settings.h"

namespace mnemon {

// z [B, T, D], normed if the model does so -> y [B, T, D], before its dropout.
at::Tensor Forward(const FastWeights& fast, const NamedTensors& weights,
                   const std::string& base, const at::Tensor& z, const BlockCall& call);

}  // namespace mnemon
