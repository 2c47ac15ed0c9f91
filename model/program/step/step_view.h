// SPDX-License-Identifier: MIT
// What a step reports about one of its rows beside the logits: destinations of numbers,
// null if not wanted.
#pragma once

#include <cstdint>

namespace mnemon {

struct StepView {
  int64_t run = 0;  // of the batch, of one row
  // [D], normed: the head's input.
  float* hidden_state = nullptr;
  // Attention [L, H, positions], for positions StepProgram::FirstSeen to LastSeen. Null
  // as well if the row sees none.
  float* weights = nullptr;
  int64_t positions = 0;
  // Frobenius norms [L, H] of the row's change of fast weights W, and of W after it.
  float* update_norms = nullptr;
  float* state_norms = nullptr;
  // With update_norms: scratch for W of a layer, [H, N, K].
  float* before = nullptr;
};

}  // namespace mnemon
