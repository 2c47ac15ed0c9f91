// SPDX-License-Identifier: MIT
// The loss of a batch and the gradient of all weights: by a hand-written pass, or by
// autograd through the sequence form. Both compute the same function; their bits
// differ. Each process of a group computes a share of the batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "model/sequence/model.h"
#include "train/data/config.h"
#include "train/data/loader.h"
#include "train/fit/evaluation.h"
#include "train/fit/parameters.h"
#include "train/parallel/process_group.h"
#include "train/parallel/worker_pool.h"

namespace mnemon {

struct BatchGradient {
  double loss = 0;   // mean cross-entropy in nats
  double norm = 0;   // 2-norm of its gradient
  double scale = 1;  // buffer() times this is its gradient
};

// Used by one thread; computes on those of a WorkerPool. All processes of the group
// make the same calls with the same batches, and get the same results. UNAVAILABLE:
// contact with one is lost.
class BatchGradients {
 public:
  virtual ~BatchGradients() = default;

  // Of a training batch, with the masks of dropout that `key` decides on and after the
  // carry of the batch before, where the loader's batches continue each other.
  virtual absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) = 0;
  // What the bits depend on beside configuration and data, for people.
  virtual std::string numerics() const = 0;
  // [size] in the layout of the parameters, constant, on their device.
  virtual const at::Tensor& buffer() const = 0;
  // Blocks of kFlatBlock numbers of buffer() that any Compute has written, ascending;
  // the others are 0.
  virtual const std::vector<int64_t>& written_blocks() const = 0;

  // The carry of all rows of the latest training batch; fresh where they do not
  // continue.
  virtual absl::StatusOr<Carry> TrainingCarry() const = 0;
  virtual void SetTrainingCarry(const Carry& carry) = 0;

  // Without dropout, in float32: batches get(0) .. get(count - 1), whose carries go
  // from one to the next where they continue. Also the errors of `get`.
  using GetBatch = std::function<absl::StatusOr<Batch>(int64_t)>;
  virtual absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) = 0;
};

// As config.backward says, but by autograd where there is no pass: on another device
// than the CPU, in bf16, for an architecture that has none. `model` is bound to
// `parameters` and, as `pool` and `group`, outlives the result.
absl::StatusOr<std::unique_ptr<BatchGradients>> MakeBatchGradients(
    const TrainConfig& config, const Model& model, const Parameters& parameters,
    WorkerPool& pool, ProcessGroup& group);

// The two forms. Null where the architecture has no pass.
std::unique_ptr<BatchGradients> MakeFusedGradients(const TrainConfig& config,
                                                   const Model& model,
                                                   const Parameters& parameters,
                                                   WorkerPool& pool,
                                                   ProcessGroup& group);
absl::StatusOr<std::unique_ptr<BatchGradients>> MakeAutogradGradients(
    const TrainConfig& config, const Parameters& parameters, WorkerPool& pool,
    ProcessGroup& group);

// The carry that a batch of training or evaluation begins with: `carry`, or a fresh one
// where the batch does not continue it, or where its positions end before the batch.
template <class AnyCarry>
void BeginBatch(const Batch& batch, int64_t max_positions, AnyCarry& carry) {
  if (batch.fresh || max_positions - carry.position < batch.columns) carry = {};
}

}  // namespace mnemon
