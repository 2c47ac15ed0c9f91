// SPDX-License-Identifier: MIT
// A model being trained: one update, one validation, one sample at a time. Everything
// is a function of the configuration, the text and the number of updates made, so what
// Save writes continues bit for bit (with the same number of threads).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/checkpoint.h"
#include "model/model.h"
#include "train/config.h"
#include "train/loader.h"
#include "train/optimiser.h"
#include "train/parameters.h"
#include "train/text_task.h"

namespace mnemon {

struct UpdateResult {
  double loss = 0;           // mean cross-entropy in nats, before the update
  double gradient_norm = 0;  // before clipping
  int64_t tokens = 0;
};

// Owned by one thread.
class Learner {
 public:
  // Initialises the model from config.seed. config.model.vocab is
  // task.tokenizer->size(). `task` must outlive the learner. INVALID_ARGUMENT for a
  // text that is too short, RESOURCE_EXHAUSTED when memory does not suffice.
  static absl::StatusOr<std::unique_ptr<Learner>> Create(const TrainConfig& config,
                                                         const TextTask& task);

  // The next batch, forward, backward, clip, optimiser with rate `lr`. OUT_OF_RANGE
  // when loss or gradient is not finite; the weights are then unchanged.
  absl::StatusOr<UpdateResult> Update(double lr);
  // Mean cross-entropy over the validation batches, in nats.
  absl::StatusOr<double> Validate() const;
  // The prompt and what the model says after it.
  absl::StatusOr<std::string> Sample() const;

  int64_t updates_per_epoch() const { return training_->batches_per_pass(); }
  int64_t parameter_count() const;
  const LoaderCursor& cursor() const { return training_->cursor(); }

  // Adds config, weights, tokenizer, optimiser and carry to a checkpoint.
  absl::Status Save(CheckpointContent& content) const;
  // Reads back what Save wrote, after `updates` updates, in checkpoint `dir`.
  absl::Status Load(const std::string& dir, int64_t updates,
                    const LoaderCursor& cursor);

 private:
  Learner(const TrainConfig& config, const TextTask& task, std::unique_ptr<Model> model,
          std::unique_ptr<Loader> training, std::unique_ptr<Loader> validation,
          std::vector<int32_t> prompt);

  // The logits of `batch` after `carry`, which becomes that of the next batch.
  absl::StatusOr<at::Tensor> Loss(const Batch& batch, const ForwardOptions& options,
                                  Carry& carry) const;
  absl::Status LoadOptimiser(const std::string& file);
  absl::Status LoadCarry(const std::string& file);

  const TrainConfig config_;
  const TextTask& task_;
  const std::unique_ptr<Model> model_;
  Parameters parameters_;
  Optimiser optimiser_;
  const std::unique_ptr<Loader> training_;
  const std::unique_ptr<Loader> validation_;
  const std::vector<int32_t> prompt_;
  Carry carry_;  // of the training text, outside the graph
};

}  // namespace mnemon
