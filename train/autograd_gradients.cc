// SPDX-License-Identifier: MIT
// Gradients by autograd. The rows of a batch are cut into shards; each is computed by
// one thread, with a gradient buffer of its own; gradients meet in a fixed tree, losses
// in order. A GPU computes all rows at once.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <c10/core/GradMode.h>

#include "base/partition.h"
#include "base/status_macros.h"
#include "model/sequence/runtime.h"
#include "model/sequence_registry/sequence_registry.h"
#include "train/autocast.h"
#include "train/batch_gradients.h"
#include "train/gradient_sum.h"
#include "train/id_tensor.h"

namespace mnemon {
namespace {

class AutogradGradients final : public BatchGradients {
 public:
  // A model bound to the shared weights, and its gradients.
  struct Shard {
    std::unique_ptr<Model> model;
    at::Tensor gradients;
  };

  AutogradGradients(const TrainConfig& config, std::vector<Shard> shards,
                    WorkerPool& pool)
      : config_(config),
        pool_(pool),
        shards_(std::move(shards)),
        sum_(Buffers(shards_)),
        blocks_(sum_.blocks()),
        carries_(shards_.size()) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) override {
    const int64_t shards = ShardsOf(batch.rows);
    // Of no targets the loss is 0.
    const int64_t counted = std::max<int64_t>(1, batch.counted());
    std::vector<double> losses(shards);
    MNEMON_RETURN_IF_ERROR(RunShards(shards, [&](int s) -> absl::Status {
      shards_[s].gradients.zero_();
      MNEMON_ASSIGN_OR_RETURN(
          const Outputs outputs,
          PartOfBatch(batch, s, config_.precision, key, carries_[s]));
      const at::Tensor loss =
          at::cross_entropy_loss(outputs.logits, outputs.targets, {},
                                 at::Reduction::Sum, kNoTarget) /
          static_cast<double>(counted);
      losses[s] = loss.item<double>();
      loss.backward();
      return absl::OkStatus();
    }));
    MNEMON_RETURN_IF_ERROR(pool_.Run([&](int w) {
      sum_.Add(static_cast<int>(shards), blocks_, w, pool_.size());
      return absl::OkStatus();
    }));
    return BatchGradient{.loss = std::accumulate(losses.begin(), losses.end(), 0.0),
                         .norm = sum_.Norm()};
  }

  std::string numerics() const override { return TensorNumerics(buffer().device()); }

  const at::Tensor& buffer() const override { return shards_[0].gradients; }

  const std::vector<int64_t>& written_blocks() const override { return blocks_; }

  Carry TrainingCarry() const override {
    Carry all{.position = carries_[0].position, .tensors = {}};
    for (size_t i = 0; i < carries_[0].tensors.size(); ++i) {
      std::vector<at::Tensor> parts;
      for (const Carry& carry : carries_) {
        if (!carry.fresh()) parts.push_back(carry.tensors[i]);
      }
      all.tensors.push_back(at::cat(parts, 0));
    }
    return all;
  }

  void SetTrainingCarry(const Carry& carry) override {
    carries_.assign(shards_.size(), Carry());
    if (carry.fresh()) return;
    const int64_t rows =
        carry.tensors.empty() ? config_.data.batch : carry.tensors[0].size(0);
    for (int64_t s = 0; s < ShardsOf(rows); ++s) {
      const Part part = PartOf(rows, s, ShardsOf(rows));
      carries_[s].position = carry.position;
      for (const at::Tensor& tensor : carry.tensors) {
        carries_[s].tensors.push_back(
            tensor.narrow(0, part.begin, part.size()).contiguous());
      }
    }
  }

  absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) override {
    std::vector<Carry> carries(shards_.size());
    Evaluation all;
    for (int64_t i = 0; i < count; ++i) {
      const Batch batch = get(i);
      const int64_t shards = ShardsOf(batch.rows);
      std::vector<Evaluation> parts(shards);
      MNEMON_RETURN_IF_ERROR(RunShards(shards, [&](int s) -> absl::Status {
        c10::AutoGradMode no_graph(false);
        MNEMON_ASSIGN_OR_RETURN(
            const Outputs outputs,
            PartOfBatch(batch, s, Precision::kFp32, std::nullopt, carries[s]));
        parts[s].Add(outputs.logits, outputs.targets);
        return absl::OkStatus();
      }));
      for (const Evaluation& part : parts) all.Add(part);
    }
    return all;
  }

 private:
  struct Outputs {
    at::Tensor logits;   // [rows * T, V], float32
    at::Tensor targets;  // [rows * T]
  };

  static std::vector<at::Tensor> Buffers(const std::vector<Shard>& shards) {
    std::vector<at::Tensor> buffers;
    for (const Shard& shard : shards) buffers.push_back(shard.gradients);
    return buffers;
  }

  // Shards that a batch of so many rows is cut into: none is empty.
  int64_t ShardsOf(int64_t rows) const {
    return std::min(rows, static_cast<int64_t>(shards_.size()));
  }

  // Calls work(0) .. work(count - 1) on the threads of the pool, each when one is free.
  absl::Status RunShards(int64_t count, const WorkerPool::Work& work) {
    std::atomic<int> next = 0;
    return pool_.Run([&](int) -> absl::Status {
      for (int shard = next++; shard < count; shard = next++) {
        MNEMON_RETURN_IF_ERROR(work(shard));
      }
      return absl::OkStatus();
    });
  }

  // The model's logits for the shard's rows of `batch` after `carry`, which becomes
  // that of the next batch.
  absl::StatusOr<Outputs> PartOfBatch(const Batch& batch, int shard,
                                      Precision precision,
                                      std::optional<uint64_t> dropout_key,
                                      Carry& carry) const {
    const Model& model = *shards_[shard].model;
    BeginBatch(batch, model.carry_spec().max_positions(), carry);
    const Part rows = PartOf(batch.rows, shard, ShardsOf(batch.rows));
    ForwardOptions options;
    if (dropout_key) options.dropout = {.key = *dropout_key, .first_row = rows.begin};
    const auto part = [&](const std::vector<int64_t>& ids) {
      return IdTensor(ids.data() + rows.begin * batch.columns, rows.size(),
                      batch.columns);
    };
    const Autocast autocast(precision, buffer().device());
    MNEMON_ASSIGN_OR_RETURN(ForwardResult result,
                            model.Forward(part(batch.inputs), carry, options));
    // Shuffled windows do not continue each other.
    const bool keep = config_.data.loader == LoaderKind::kSequential;
    const at::Tensor targets = part(batch.targets).to(result.logits.device());
    carry = keep ? result.carry.Detached() : Carry();
    return Outputs{.logits = result.logits.flatten(0, 1).to(at::kFloat),
                   .targets = targets.flatten()};
  }

  const TrainConfig config_;
  WorkerPool& pool_;
  const std::vector<Shard> shards_;
  GradientSum sum_;              // into the gradients of shard 0
  std::vector<int64_t> blocks_;  // all: autograd writes whole tensors
  std::vector<Carry> carries_;   // of each shard, outside the graph
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchGradients>> MakeAutogradGradients(
    const TrainConfig& config, const Parameters& parameters, WorkerPool& pool) {
  const bool cut = parameters.values().is_cpu();
  std::vector<AutogradGradients::Shard> shards(
      cut ? std::min(config.shards, config.data.batch) : 1);
  for (AutogradGradients::Shard& shard : shards) {
    MNEMON_ASSIGN_OR_RETURN(shard.model, MakeModel(config.model));
    shard.gradients = parameters.Bind(*shard.model);
  }
  return std::make_unique<AutogradGradients>(config, std::move(shards), pool);
}

}  // namespace mnemon
