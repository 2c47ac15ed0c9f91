// SPDX-License-Identifier: MIT
// Pictures of the memory of a trained model on a stretch of its validation data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "train/report/report_page.h"

namespace mnemon {

struct MemoryFigures {
  std::string architecture;  // empty if the checkpoint cannot be read
  int64_t parameters = 0;
  // Encoder: attention maps of every head. Feedback: attention maps over its memory,
  // and weights by distance. Transformer-XL and causal: weights by distance. Fast
  // weights: norms of the matrices over the tokens.
  std::vector<FigureGroup> groups;
  absl::Status fault;  // why there are no groups
};

// Draws the memory of the checkpoint `best` of the run in directory `run`, else of
// `last`. Reads the text of the training. May throw exceptions of libtorch: see
// RunTensors.
MemoryFigures DrawMemoryFigures(const std::string& run);

}  // namespace mnemon
