// SPDX-License-Identifier: MIT
// A checkpoint directory: config.json, model.safetensors, tokenizer.json (optional),
// manifest.json (SHA-256 per file), training/ (ignored by serving). See
// docs/checkpoint_format.md.
#pragma once

#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/io/finite_scan.h"
#include "model/io/safetensors.h"

namespace mnemon {

struct VerifiedWeights {
  std::string model_id;  // SHA-256 over those of weights, config and tokenizer
  std::vector<NonFinite> non_finite;
};

// The serving files of a checkpoint, not yet a model.
struct CheckpointFiles {
  ModelConfig config;
  // Their header; the data is read, hashed and scanned once, in the background, and is
  // there piece by piece: see FileBytes.
  Safetensors weights;
  std::optional<std::string> tokenizer_json;
  // get() waits for all weights. What was made of them may be used when it gave OK, not
  // before: DATA_LOSS names weights that do not match the manifest, could not be read,
  // or changed meanwhile; RESOURCE_EXHAUSTED.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
};

// Reads the checkpoint `given`, or of a run its checkpoint `best`, else `last`. It may
// itself be a link; the files inside must be regular. A manifest, where there is one,
// must match (DATA_LOSS names the file). Pickle files (.pt, .pth, .bin, .ckpt, .pkl,
// .pickle) given as a directory are refused by name. Faults of
// weights that do not match the manifest are reported as DATA_LOSS, whatever else they
// are.
absl::StatusOr<CheckpointFiles> ReadCheckpoint(const std::string& given);

// File name (may start with "training/") -> content.
using CheckpointContent = std::map<std::string, std::string>;

// Writes all files and a manifest over them, durably: see WriteDirectoryDurably.
absl::Status WriteCheckpoint(const std::string& dir, const CheckpointContent& content);

// One file of training/, verified against the manifest. NOT_FOUND when absent.
absl::StatusOr<std::string> ReadTrainingFile(const std::string& dir,
                                             const std::string& name);

}  // namespace mnemon
