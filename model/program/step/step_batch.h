// SPDX-License-Identifier: MIT
// The batch of a step, in rows. A row is one token of one session; the rows of a
// session are a run. C++17, for nvcc.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/step/step_view.h"

namespace mnemon {

struct StepBatch {
  // Consecutive tokens of one session.
  struct Run {
    int32_t slot = 0;      // -1: padding, nothing is computed and no state touched
    int64_t first = 0;     // its first row
    int64_t count = 0;     // its rows
    int64_t position = 0;  // of its first row
    // The token after the last row is drawn; only for runners that draw.
    bool draws = false;
  };

  std::vector<Run> runs;
  // Token of each row. Negative in a run of one row: the token that its slot has drawn.
  std::vector<int32_t> tokens;
  std::vector<int32_t> wanted;  // rows whose logits are wanted, rising; none of padding
  std::vector<StepView> views;  // for the CPU alone

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace mnemon
