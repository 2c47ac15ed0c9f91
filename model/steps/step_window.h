// SPDX-License-Identifier: MIT
// The step form of models whose layers attend to their own keys and values of earlier
// positions: causal (all of them) and Transformer-XL (the last M). What is cached per
// layer and position: the key as it is scored against, the value, and with relative
// positions u.k, folded in once.
#pragma once

#include <cstdint>

#include "model/steps/step_decoder.h"

namespace mnemon {

// How the two differ.
struct WindowShape {
  int64_t reach = 0;     // how many positions before its own a query sees
  int64_t zero_row = 0;  // of the relative tables: that of distance 0
  Growth growth = Growth::kAppend;
  int64_t capacity = 0;  // of the growing entries
};

StepForm WindowForm(const ModelConfig& config, const WindowShape& shape,
                    StateSpec carry_spec);

}  // namespace mnemon
