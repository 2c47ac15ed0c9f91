// SPDX-License-Identifier: MIT
// The memory in step programs, computed from a token after the last layer, once for all
// blocks that read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/blocks/attention/kernels/calls.h"
#include "model/blocks/attention/step.h"
#include "model/blocks/feedback_memory/settings.h"
#include "model/compute/kernels.h"
#include "model/compute/step_weights.h"
#include "model/state/state.h"

namespace mnemon {

// The memory of a token, mixed from all layers, as keys and values: for each head,
// `maps` makes a key and a value of each append in order, `head_stride` outputs in all.
struct RememberOp {
  const float* mix = nullptr;  // [L+1]
  MatrixView maps;
  int64_t head_stride = 0;
  int64_t pair_stride = 0;  // outputs from an append's key to the next one's
  std::vector<AppendCall> appends;
};

// A block that reads the memory.
struct MemoryReading {
  const Attention* attention = nullptr;
  std::string base;
  AttentionEntries entries;
};

// All blocks that read it have heads of one shape. Weights are filled by
// weights.Pack().
RememberOp MakeRemember(const FeedbackMemory& memory,
                        const std::vector<MemoryReading>& readings,
                        const StateSpec& spec, StepWeights& weights);

}  // namespace mnemon
