// SPDX-License-Identifier: MIT
// Embedding and head in sequence forms: see settings.h.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/blocks/affine_torch.h"
#include "model/blocks/dropout_torch.h"
#include "model/blocks/ends/settings.h"

namespace mnemon {

// Rows first .. first+count-1 of the sinusoid table (sinusoid.h), [count, D]. Computed
// in double on the CPU, rounded to the type of `options`.
at::Tensor Sinusoid(int64_t first, int64_t count, int64_t width,
                    const at::TensorOptions& options);

// tokens [B, T] int64, on any device, at positions first .. first+T-1 -> [B, T, D],
// before dropout.
at::Tensor Embed(const Embedding& embedding, const NamedTensors& weights,
                 const at::Tensor& tokens, int64_t first);

// x [..., D] -> logits [..., V]; `drop` applies to a classifier's hidden layer.
at::Tensor Logits(const Head& head, const NamedTensors& weights, const at::Tensor& x,
                  const Dropout& drop);

}  // namespace mnemon
