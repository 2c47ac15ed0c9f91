// SPDX-License-Identifier: MIT
// The models of a server, loaded from their checkpoints for its engine.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/load/load.h"
#include "server/engine/engine.h"

namespace mnemon {

// Where a model comes from: the value of one --checkpoint flag.
struct CheckpointFlag {
  std::string name;
  std::string dir;
};

// "[NAME=]DIR"; without a name, "default". NAME is 1 to 63 characters of a-z, 0-9 and
// '-'; a text before '=' that is no name belongs to the directory. INVALID_ARGUMENT for
// an empty directory or a name given twice.
absl::StatusOr<std::vector<CheckpointFlag>> ParseCheckpointFlags(
    const std::vector<std::string>& values);

// Owns decoders, predictors and tokenizers; outlives the engine. Constant after
// loading.
class LoadedModels {
 public:
  // Loads all or nothing; logs each model with the sessions that fit in each tier.
  // `memory`: bytes of the whole server. The errors of LoadServedModel and EngineBytes.
  static absl::StatusOr<LoadedModels> Load(const std::vector<CheckpointFlag>& flags,
                                           const Engine::Options& options,
                                           int64_t memory,
                                           const ServeModelOptions& model);

  std::vector<EngineModel> ForEngine() const;
  // Of the memory, what the weights and the others leave:
  // Engine::Options::memory_bytes.
  int64_t engine_bytes() const { return engine_bytes_; }
  // EngineOptions::call_bytes.
  int64_t call_bytes() const { return call_bytes_; }

 private:
  struct One {
    ServedModel served;
    ModelFacts facts;
  };
  static absl::StatusOr<One> LoadOne(const CheckpointFlag& flag,
                                     const ServeModelOptions& options);

  std::vector<One> models_;
  int64_t engine_bytes_ = 0;
  int64_t call_bytes_ = 0;
};

}  // namespace mnemon
