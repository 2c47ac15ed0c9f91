// SPDX-License-Identifier: MIT
// Dropout of the sequence forms.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "model/compute/dropout_mask.h"

namespace mnemon {

// Inverted dropout with the masks of DropoutMask. The identity without a key
// (evaluation) or with p = 0; otherwise returns float32 for bfloat16. Immutable.
class Dropout {
 public:
  // The identity.
  Dropout() : Dropout(0.0, std::nullopt, 1) {}
  // Dropout for `batch` rows.
  Dropout(double p, std::optional<DropoutKey> key, int64_t batch);

  // Dropout of one layer, for windows that begin at `position`.
  Dropout At(int64_t layer, int64_t position = 0) const;

  // x [heads * batch, T, E] or, for one position, [heads * batch, E], head by head.
  at::Tensor operator()(const at::Tensor& x, DropoutKind kind) const;

 private:
  const std::optional<DropoutMask> mask_;
  const int64_t first_row_;
  const int64_t batch_;
  int64_t layer_ = 0;
  int64_t position_ = 0;
};

}  // namespace mnemon
