// SPDX-License-Identifier: MIT
// How the blocks of a launch execute a linear call, computed once on the host: what
// stays the same from step to step, in 32 bits, so that a block starts without
// divisions. C++17.
#pragma once

#include <cstdint>

namespace mnemon {

struct LinearPlan {
  int32_t slices = 0;
  int32_t outputs = 0;  // per unit: four, or in int8 a panel
  // Units per block; the first `more` blocks have one more.
  int32_t each = 0;
  int32_t more = 0;
  int32_t at_once = 0;    // units whose sums are in shared memory together
  int32_t tile_rows = 0;  // rows of these sums
  int32_t tile_at = 0;    // floats to their inputs, after the sums
  // Whether a block copies data that does not depend on rows to shared memory ahead of
  // the call, and to where: first the norm, then biases, scales and weights of its
  // units.
  bool ahead = false;
  int32_t norm_bias_at = 0;
  int32_t bias_at = 0;
  int32_t scales_at = 0;
  int32_t weights_at = 0;
  int32_t slice_floats = 0;  // per slice of a unit there; not in int8
  int32_t unit_floats = 0;
};

}  // namespace mnemon
