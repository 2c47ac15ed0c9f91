// SPDX-License-Identifier: MIT
// A model in training: makes one update, one validation or one sample at a time. Its
// state is a function of the configuration, the text and the number of updates, so that
// training continues from a checkpoint bit for bit, with any number of threads.
//
// The rows of a batch are divided into shards, whose number the configuration sets.
// Gradients are summed within each shard, then over the shards in a fixed tree. A GPU
// computes all rows at once, with bits of its own. Each of several processes computes a
// share of the shards, and all make the same update.
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

// Owned by one thread; computes on the threads of its WorkerPool. All processes of a
// group make the same calls, except Sample. Every call may return UNAVAILABLE: contact
// with a process is lost.
class Learner {
 public:
  // Initialises the model from config.seed: the same weights on every device.
  // config.model.vocab is task.vocab(). `task`, `pool` and `group` must outlive the
  // learner. INVALID_ARGUMENT if there are too few data, RESOURCE_EXHAUSTED if memory
  // does not suffice.
  static absl::StatusOr<std::unique_ptr<Learner>> Create(const TrainConfig& config,
                                                         const Task& task,
                                                         WorkerPool& pool,
                                                         ProcessGroup& group,
                                                         at::Device device = at::kCPU);

  // Trains on the next batch: forward, backward, clipping, optimiser with rate `lr`.
  // OUT_OF_RANGE if loss or gradient is not finite. After that and after UNAVAILABLE
  // the weights are unchanged and the same batch is next.
  absl::StatusOr<UpdateResult> Update(double lr);
  // Evaluates the validation batches.
  absl::StatusOr<Evaluation> Validate();
  // Evaluates the test part; nullopt if the task has none.
  absl::StatusOr<std::optional<Evaluation>> Test();
  // The prompt and what the model generates after it; ends where logits are not finite.
  // Empty if the task has no prompts.
  absl::StatusOr<std::string> Sample() const;

  int64_t updates_per_epoch() const { return training_.batches_per_pass(); }
  // Updates of the curriculum.
  int64_t updates_before_epochs() const { return training_.batches_before(); }
  int64_t parameter_count() const;
  // The device that holds the weights and computes.
  at::Device device() const { return parameters_.values().device(); }
  // As in BatchGradients.
  std::string numerics() const { return gradients_->numerics(); }
  CurriculumCursor cursor() const { return training_.cursor(); }

  // Adds config, weights, tokenizer, optimiser and carry to a checkpoint.
  absl::Status Save(CheckpointContent& content) const;
  // Restores what Save wrote after `updates` updates from the checkpoint `dir`. Called
  // by one process; Distribute copies it to the others.
  absl::Status Load(const std::string& dir, int64_t updates,
                    const CurriculumCursor& cursor);
  // Copies all that Save writes from process 0 to the others.
  absl::Status Distribute();

 private:
  // The arguments of Create and what it has made from them.
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

  // Evaluates `count` batches of a loader, spread over its pass if batches do not
  // continue each other.
  absl::StatusOr<Evaluation> Evaluate(Loader& loader, int64_t count);
  // Blocks of the flat buffers that an update changes, ascending.
  std::vector<int64_t> BlocksToUpdate() const;
  absl::Status LoadOptimiser(const std::string& file);
  // The file of a carry. REQUIRES: not fresh.
  absl::StatusOr<std::string> FormatCarry(const Carry& carry) const;
  // The carry of a file; fresh if that is empty.
  absl::StatusOr<Carry> ParseCarry(const std::string& file) const;

  const TrainConfig config_;
  const Task& task_;
  WorkerPool& pool_;
  ProcessGroup& group_;
  const std::unique_ptr<Model> model_;  // bound to the parameters
  const Parameters parameters_;
  const std::unique_ptr<BatchGradients> gradients_;
  Optimiser optimiser_;                 // of parameters_, with gradients_
  std::vector<int64_t> always_update_;  // blocks that change even without a gradient
  Curriculum training_;
  const std::unique_ptr<Loader> validation_;
  const std::unique_ptr<Loader> test_;  // null if the task has no test part
  const std::vector<int32_t> prompt_;
  std::string loaded_carry_;  // for Distribute
};

}  // namespace mnemon
