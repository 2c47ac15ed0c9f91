// SPDX-License-Identifier: MIT
// The task of a run: where its batches come from and what its tokens mean.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/tokenizer.h"
#include "train/data/config.h"
#include "train/data/loader.h"

namespace mnemon {

// Constant after construction.
class Task {
 public:
  virtual ~Task() = default;

  // V of the models that learn it.
  virtual int64_t vocab() const = 0;
  // The data in words: "text: 900 training tokens ...".
  virtual std::string Describe() const = 0;
  // Null if tokens do not stand for text.
  virtual const Tokenizer* tokenizer() const = 0;
  // SHA-256 of the text; empty if the configuration defines all data.
  virtual const std::string& sha256() const = 0;

  // The batches of one part of the data, in the order defined by `options` and `seed`.
  // Null for kTest if the task has no such part. The task must outlive the loader.
  // INVALID_ARGUMENT if there is too little data for one batch.
  virtual absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                             LoaderUse use,
                                                             uint64_t seed) const = 0;
  // Initial embedding [V, D] of a model of this width, if the task defines one; else
  // empty.
  virtual std::vector<float> Features(int64_t /*d_model*/, uint64_t /*seed*/) const {
    return {};
  }
  // Tokens that a sample starts with: those of `wanted`, or the task's own prompt if it
  // is empty. Empty if the task has no samples.
  virtual absl::StatusOr<std::vector<int32_t>> Prompt(
      const std::string& wanted) const = 0;
};

// Makes the task of `config` and loads its data. Errors name the key or the file.
absl::StatusOr<std::unique_ptr<Task>> LoadTask(const TrainConfig& config);

}  // namespace mnemon
