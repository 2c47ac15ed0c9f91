// SPDX-License-Identifier: MIT
// The files of a checkpoint, read and checked, before a model is made of them.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/io/safetensors.h"
#include "model/text/tokenizer.h"
#include "model/weights/weights.h"

namespace mnemon {

struct ModelFiles {
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
  Safetensors weights;                   // all tensors of the architecture, no others
  // As of CheckpointFiles: the weights are verified when this was found to be OK.
  std::future<absl::StatusOr<std::string>> model_id;

  int64_t parameters() const;
};

// Reads and checks the whole checkpoint in `dir` (which may be a link such as
// run/last); by option, weights may hold NaN and infinity. Errors are those of
// ReadFile, INVALID_ARGUMENT, FAILED_PRECONDITION, DATA_LOSS, RESOURCE_EXHAUSTED or
// INTERNAL, and name the file or `dir`, and every fault; nothing of a declared size is
// allocated before it was checked.
absl::StatusOr<ModelFiles> ReadModelFiles(const std::string& dir,
                                          bool refuse_non_finite = true);

// Views of the weights in the order of the architecture's tensors. `copies` keeps those
// whose bytes lie where no float may.
TensorViews ViewWeights(const ModelFiles& files,
                        std::vector<std::vector<float>>& copies);

}  // namespace mnemon
