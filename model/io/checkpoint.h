// SPDX-License-Identifier: MIT
// A checkpoint directory: config.json, model.safetensors, tokenizer.json (optional),
// tokenizer_config.json (optional; may be in the manifest, but changes no token),
// manifest.json (SHA-256 per file, see manifest.h), training/ (ignored by serving). See
// docs/checkpoint_format.md.
#pragma once

#include <future>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/families/config.h"
#include "model/io/manifest.h"
#include "model/io/safetensors.h"
#include "model/io/weight_scan.h"

namespace mnemon {

struct VerifiedWeights {
  // See ModelIdOf; int8 weights have the id of their fp32 source checkpoint.
  std::string model_id;
  std::string sha256;  // of model.safetensors in our own checkpoints
  std::vector<BadWeight> bad_weights;
};

// The model_id for weights in these files, and the SHA-256 of config.json and
// tokenizer.json, empty if there is none.
struct FileHash {
  std::string name;
  std::string sha256;
};
std::string ModelIdOf(std::span<const FileHash> weights, const std::string& config,
                      const std::string& tokenizer);

// The serving files of a checkpoint, before a model is made of them.
struct CheckpointFiles {
  ModelConfig config;
  std::string config_json;
  bool int8 = false;  // int8 matrices; false: all weights are fp32
  // Header of the weights. The data is read, hashed and scanned once, in the
  // background, and becomes available piece by piece: see FileBytes.
  Safetensors weights;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;
  // get() waits for all weights. What was made of them must not be used before it
  // returns OK. DATA_LOSS names weights that do not match the manifest, could not be
  // read, or changed meanwhile; RESOURCE_EXHAUSTED.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
};

// Reads the checkpoint `given`, or, if that is a run, its checkpoint `best`, else
// `last`. It may itself be a link; the files inside must be regular. A manifest, if
// there is one, must match (DATA_LOSS names the file). Pickle files (.pt, .pth, .bin,
// .ckpt, .pkl, .pickle) given as a directory are refused by name. Faults of weights
// that do not match the manifest are always reported as DATA_LOSS.
absl::StatusOr<CheckpointFiles> ReadCheckpoint(const std::string& given);

// File name (may start with "training/") -> content.
using CheckpointContent = std::map<std::string, std::string>;

// Writes all files and their manifest durably: see WriteDirectoryDurably. `source`: the
// source of int8 weights, with the same config.json and tokenizer.json.
absl::Status WriteCheckpoint(const std::string& dir, const CheckpointContent& content,
                             const std::optional<Int8Source>& source = {});

// FAILED_PRECONDITION for code that supports only fp32 weights.
absl::Status NeedsFp32Weights();
// The same if the checkpoint `dir` is int8; errors of ReadCheckpoint.
absl::Status RequireFp32(const std::string& dir);

// One file of training/ of the checkpoint that ReadCheckpoint reads, verified against
// the manifest. NOT_FOUND if absent.
absl::StatusOr<std::string> ReadTrainingFile(const std::string& dir,
                                             const std::string& name);

}  // namespace mnemon
