// SPDX-License-Identifier: MIT
// How the blocks of a launch do a linear call, worked out once by the host: what is the
// same from step to step, in 32 bits, so that a block begins without dividing. C++17.
#pragma once

#include <cstdint>

namespace mnemon {

struct LinearPlan {
  int32_t slices = 0;
  int32_t outputs = 0;  // of a unit: four, or in int8 those of a panel
  // A block has so many units, and each of the first `more` one more.
  int32_t each = 0;
  int32_t more = 0;
  int32_t at_once = 0;    // units whose sums are in shared memory together
  int32_t tile_rows = 0;  // rows likewise
  int32_t tile_at = 0;    // floats to their inputs, behind the sums
  // Whether a block brings what does not depend on rows to shared memory ahead of the
  // call, and where: the norm first, and of its units biases, scales and weights.
  bool ahead = false;
  int32_t norm_bias_at = 0;
  int32_t bias_at = 0;
  int32_t scales_at = 0;
  int32_t weights_at = 0;
  int32_t slice_floats = 0;  // of a unit's slice there, not in int8
  int32_t unit_floats = 0;
};

}  // namespace mnemon
