// SPDX-License-Identifier: MIT
// The loading of a checkpoint directory into what serves it, without torch unless the
// sequence form serves the model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/registry/registry.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct ServedModel {
  ModelConfig config;
  std::string model_id;  // see docs/checkpoint_format.md
  int64_t parameters = 0;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none, only ids work
  // One of the two.
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<Predictor> predictor;
};

// Where and how a model computes.
struct ServeModelOptions {
  std::string device = "cpu";  // as of --device; of autoregressive models
  DecoderOptions decoder;      // its pool must outlive the model
};

// Reads, checks and packs the checkpoint in `dir`; the errors of ReadModelFiles,
// MakeDecoder, and of the sequence module where one is needed. Nothing of the file
// stays in memory.
absl::StatusOr<ServedModel> LoadServedModel(const std::string& dir,
                                            const ServeModelOptions& options);

}  // namespace mnemon
