// SPDX-License-Identifier: MIT
// A checkpoint directory: config.json, model.safetensors, tokenizer.json (optional),
// tokenizer_config.json (optional; in the manifest or not, as it changes no token),
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
  // See ModelIdOf; int8 weights have that of the fp32 checkpoint that they were made
  // of.
  std::string model_id;
  std::string sha256;  // of model.safetensors of a checkpoint of ours
  std::vector<BadWeight> bad_weights;
};

// The model_id of weights in these files, and of the SHA-256 of config.json and
// tokenizer.json, which is empty where there is none.
struct FileHash {
  std::string name;
  std::string sha256;
};
std::string ModelIdOf(std::span<const FileHash> weights, const std::string& config,
                      const std::string& tokenizer);

// The serving files of a checkpoint, not yet a model.
struct CheckpointFiles {
  ModelConfig config;
  std::string config_json;
  bool int8 = false;  // the matrices; else all weights are fp32
  // Their header; the data is read, hashed and scanned once, in the background, and is
  // there piece by piece: see FileBytes.
  Safetensors weights;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;
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
// `source`: of int8 weights, with the same config.json and tokenizer.json.
absl::Status WriteCheckpoint(const std::string& dir, const CheckpointContent& content,
                             const std::optional<Int8Source>& source = {});

// FAILED_PRECONDITION for what computes with fp32 weights alone.
absl::Status NeedsFp32Weights();
// The same for the checkpoint `dir` when it is an int8 one; the errors of
// ReadCheckpoint.
absl::Status RequireFp32(const std::string& dir);

// One file of training/ of the checkpoint that ReadCheckpoint reads, verified against
// the manifest. NOT_FOUND when absent.
absl::StatusOr<std::string> ReadTrainingFile(const std::string& dir,
                                             const std::string& name);

}  // namespace mnemon
