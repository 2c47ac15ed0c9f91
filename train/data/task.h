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
  // What there is to learn from, for people: "text: 900 training tokens ...".
  virtual std::string Describe() const = 0;
  // Null where tokens stand for no text.
  virtual const Tokenizer* tokenizer() const = 0;
  // SHA-256 of the text; empty where the configuration defines everything.
  virtual const std::string& sha256() const = 0;

  // The batches of one part in the order that `options` and `seed` give; null for
  // kTest where there is no such part. The task must outlive them. INVALID_ARGUMENT
  // when there is too little for one batch.
  virtual absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(const DataOptions& options,
                                                             LoaderUse use,
                                                             uint64_t seed) const = 0;
  // What the tokens of a model of this width are before it is trained [V, D], where
  // they have features of their own; else empty.
  virtual std::vector<float> Features(int64_t /*d_model*/, uint64_t /*seed*/) const {
    return {};
  }
  // What a sample starts with: `wanted`, or where that is empty, something of the
  // task's own. Empty where the task has no samples.
  virtual absl::StatusOr<std::vector<int32_t>> Prompt(
      const std::string& wanted) const = 0;
};

// The task of `config`, with its data. Errors name the key or the file.
absl::StatusOr<std::unique_ptr<Task>> LoadTask(const TrainConfig& config);

}  // namespace mnemon
