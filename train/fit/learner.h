// SPDX-License-Identifier: MIT
// A model being trained: one update, one validation, one sample at a time. Everything
// is a function of the configuration, the text and the number of updates made, so what
// Save writes continues bit for bit, with any number of threads.
//
// The rows of a batch are cut into shards, whose number the configuration gives:
// gradients of weights are summed within each, and meet in a fixed tree. A GPU, whose
// bits are its own, computes all rows at once. Of several processes each computes a
// share of the shards, and makes the same update.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/io/checkpoint.h"
#include "model/sequence/model.h"
#include "train/data/config.h"
#include "train/data/curriculum.h"
#include "train/data/loader.h"
#include "train/data/task.h"
#include "train/fit/batch_gradients.h"
#include "train/fit/evaluation.h"
#include "train/fit/optimiser.h"
#include "train/fit/parameters.h"
#include "train/parallel/process_group.h"
#include "train/parallel/worker_pool.h"

namespace mnemon {

struct UpdateResult {
  double loss = 0;           // mean cross-entropy in nats, before the update
  double gradient_norm = 0;  // before clipping
  int64_t tokens = 0;
};

// Owned by one thread; works on those of its `WorkerPool`. All processes of a group
// make the same calls, but for Sample; any of them may find that contact is lost,
// UNAVAILABLE.
class Learner {
 public:
  // Initialises the model from config.seed: the same weights on every device.
  // config.model.vocab is task.vocab(). `task`, `pool` and `group` must outlive the
  // learner.
  // INVALID_ARGUMENT for data that are too few, RESOURCE_EXHAUSTED when memory does
  // not suffice.
  static absl::StatusOr<std::unique_ptr<Learner>> Create(const TrainConfig& config,
                                                         const Task& task,
                                                         WorkerPool& pool,
                                                         ProcessGroup& group,
                                                         at::Device device = at::kCPU);

  // The next batch, forward, backward, clip, optimiser with rate `lr`. OUT_OF_RANGE
  // when loss or gradient is not finite. After such an error, and where contact is
  // lost, the weights are unchanged, and the batch is the next one still.
  absl::StatusOr<UpdateResult> Update(double lr);
  // Over the validation batches.
  absl::StatusOr<Evaluation> Validate();
  // Over the test part; nullopt where the task has none.
  absl::StatusOr<std::optional<Evaluation>> Test();
  // The prompt and what the model generates after it, as far as its logits are numbers;
  // empty where the task has no prompts.
  absl::StatusOr<std::string> Sample() const;

  int64_t updates_per_epoch() const { return training_.batches_per_pass(); }
  // Of the curriculum.
  int64_t updates_before_epochs() const { return training_.batches_before(); }
  int64_t parameter_count() const;
  // Where the weights are, and all that is computed with them.
  at::Device device() const { return parameters_.values().device(); }
  // As of BatchGradients.
  std::string numerics() const { return gradients_->numerics(); }
  CurriculumCursor cursor() const { return training_.cursor(); }

  // Adds config, weights, tokenizer, optimiser and carry to a checkpoint.
  absl::Status Save(CheckpointContent& content) const;
  // Reads back what Save wrote, after `updates` updates, in checkpoint `dir`. By one
  // process alone: Distribute brings it to the others.
  absl::Status Load(const std::string& dir, int64_t updates,
                    const CurriculumCursor& cursor);
  // All that Save writes becomes that of process 0.
  absl::Status Distribute();

 private:
  // What Create has made, and what it was given.
  struct Parts {
    const TrainConfig& config;
    const Task& task;
    WorkerPool& pool;
    ProcessGroup& group;
    std::unique_ptr<Model> model;
    Parameters parameters;
    std::unique_ptr<BatchGradients> gradients;
    Curriculum training;
    std::unique_ptr<Loader> validation;
    std::unique_ptr<Loader> test;
    std::vector<int32_t> prompt;
  };
  explicit Learner(Parts parts);

  // Over `count` batches of a loader, spread over its pass where they do not continue
  // each other.
  absl::StatusOr<Evaluation> Evaluate(Loader& loader, int64_t count);
  // Blocks of the flat buffers that an update touches, ascending.
  std::vector<int64_t> BlocksToUpdate() const;
  absl::Status LoadOptimiser(const std::string& file);
  // As Save writes it. REQUIRES: not fresh.
  absl::StatusOr<std::string> FormatCarry(const Carry& carry) const;
  // Fresh of an empty file.
  absl::StatusOr<Carry> ParseCarry(const std::string& file) const;

  const TrainConfig config_;
  const Task& task_;
  WorkerPool& pool_;
  ProcessGroup& group_;
  const std::unique_ptr<Model> model_;  // bound to the parameters
  const Parameters parameters_;
  const std::unique_ptr<BatchGradients> gradients_;
  Optimiser optimiser_;                 // over those
  std::vector<int64_t> always_update_;  // blocks, whatever their gradients
  Curriculum training_;
  const std::unique_ptr<Loader> validation_;
  const std::unique_ptr<Loader> test_;  // null where the task has no such part
  const std::vector<int32_t> prompt_;
  std::string loaded_carry_;  // for Distribute
};

}  // namespace mnemon
