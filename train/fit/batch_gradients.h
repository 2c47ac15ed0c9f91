// SPDX-License-Identifier: MIT
// The loss of a batch and the gradient of all weights, by a hand-written pass or by
// autograd through the sequence form. Both compute the same function, but not the same
// bits. Each process of a group computes a share of the batch.
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
  double norm = 0;   // 2-norm of the gradient
  double scale = 1;  // the gradient is scale * buffer()
};

// Used by one thread; computes on the threads of a WorkerPool. All processes of the
// group make the same calls with the same batches and get the same results.
// UNAVAILABLE: contact with a process is lost.
class BatchGradients {
 public:
  virtual ~BatchGradients() = default;

  // The gradient of a training batch. `key` decides the dropout masks. Begins with the
  // carry of the previous batch if this one continues it.
  virtual absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) = 0;
  // Describes what the bits depend on besides configuration and data.
  virtual std::string numerics() const = 0;
  // The same tensor [size] for the object's life, in the parameters' layout, on their
  // device.
  virtual const at::Tensor& buffer() const = 0;
  // Blocks of kFlatBlock elements of buffer() that any Compute has written, ascending;
  // all others are 0.
  virtual const std::vector<int64_t>& written_blocks() const = 0;

  // The carry of all rows of the latest training batch; fresh if batches do not
  // continue each other.
  virtual absl::StatusOr<Carry> TrainingCarry() const = 0;
  virtual void SetTrainingCarry(const Carry& carry) = 0;

  // Evaluates batches get(0) .. get(count - 1) without dropout, in float32. Each begins
  // with the carry of the previous one if it continues it. Also the errors of `get`.
  using GetBatch = std::function<absl::StatusOr<Batch>(int64_t)>;
  virtual absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) = 0;
};

// Makes the form that config.backward names, or the autograd form if there is no pass:
// on a device other than the CPU, in bf16, and for architectures without one. `model`
// is bound to `parameters`. `model`, `pool` and `group` must outlive the result.
absl::StatusOr<std::unique_ptr<BatchGradients>> MakeBatchGradients(
    const TrainConfig& config, const Model& model, const Parameters& parameters,
    WorkerPool& pool, ProcessGroup& group);

// The two forms. The first is null if the architecture has no pass.
std::unique_ptr<BatchGradients> MakeFusedGradients(const TrainConfig& config,
                                                   const Model& model,
                                                   const Parameters& parameters,
                                                   WorkerPool& pool,
                                                   ProcessGroup& group);
absl::StatusOr<std::unique_ptr<BatchGradients>> MakeAutogradGradients(
    const TrainConfig& config, const Parameters& parameters, WorkerPool& pool,
    ProcessGroup& group);

// Resets `carry` before `batch` if the batch does not continue it or if the remaining
// positions are too few for the batch.
template <class AnyCarry>
void BeginBatch(const Batch& batch, int64_t max_positions, AnyCarry& carry) {
  if (batch.fresh || max_positions - carry.position < batch.columns) carry = {};
}

}  // namespace mnemon
