// SPDX-License-Identifier: MIT
// Pictures of what the memory of a trained model does on a stretch of its validation
// data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "train/report/report_page.h"

namespace mnemon {

struct MemoryFigures {
  std::string architecture;  // empty: the checkpoint cannot be read
  int64_t parameters = 0;
  // Encoder: attention maps of every head. Feedback: likewise over its memory, and
  // weights over distance. Transformer-XL and causal: weights over distance. Fast
  // weights: norms of the matrices over the tokens.
  std::vector<FigureGroup> groups;
  absl::Status fault;  // why there are no groups
};

// Of the checkpoint `best` of the run in directory `run`, else of `last`. Reads the
// text that it was trained on. May throw what libtorch throws: see RunTensors.
MemoryFigures DrawMemoryFigures(const std::string& run);

}  // namespace mnemon
