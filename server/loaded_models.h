// SPDX-License-Identifier: MIT
// The models of a server, loaded from their checkpoints for its engine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/load/load.h"
#include "server/engine/engine.h"

namespace mnemon {

// The value of one --checkpoint flag.
struct CheckpointFlag {
  std::string name;
  std::string dir;
};

// Parses "[NAME=]DIR"; without a name it is "default". NAME is 1 to 63 characters of
// a-z, 0-9 and '-'; other text before '=' belongs to the directory. INVALID_ARGUMENT
// for an empty directory or a repeated name.
absl::StatusOr<std::vector<CheckpointFlag>> ParseCheckpointFlags(
    const std::vector<std::string>& values);

// Owns decoders, predictors and tokenizers; outlives the engine.
struct LoadedModels {
  struct One {
    ServedModel served;
    ModelFacts facts;
  };
  std::vector<EngineModel> ForEngine() const;

  std::vector<One> models;
  // memory_bytes and call_bytes of the engine's options.
  int64_t engine_bytes = 0;
  int64_t call_bytes = 0;
};

// Loads all or nothing; logs each model with the sessions that fit in each tier.
// `memory`: bytes of the whole server. The errors of LoadServedModel and EngineBytes.
absl::StatusOr<LoadedModels> LoadModels(const std::vector<CheckpointFlag>& flags,
                                        const Engine::Options& options, int64_t memory,
                                        const ServeModelOptions& model);

}  // namespace mnemon
