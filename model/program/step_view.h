// SPDX-License-Identifier: MIT
// What a step tells of one of its rows beside the logits: places for numbers, each null
// where it is not wanted.
#pragma once

#include <cstdint>

namespace mnemon {

struct StepView {
  int64_t run = 0;  // of the batch, of one row
  // [D], normed: what the head multiplies.
  float* hidden_state = nullptr;
  // Attention [L, H, positions]: what StepProgram::FirstSeen to LastSeen give of its
  // position. Null as well where it sees none.
  float* weights = nullptr;
  int64_t positions = 0;
  // Frobenius norms [L, H] of what the row changes of fast weights W, and of W behind
  // it.
  float* update_norms = nullptr;
  float* state_norms = nullptr;
  // With update_norms: room for W of a layer, [H, N, K].
  float* before = nullptr;
};

}  // namespace mnemon
