// SPDX-License-Identifier: MIT
// Gradients by autograd. The rows of a batch are divided into shards. One thread
// computes each shard into a gradient buffer of its own; gradients and losses are then
// summed in a fixed tree. A GPU computes all rows of its process at once.
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
#include "model/sequence/make_model.h"
#include "model/sequence/runtime.h"
#include "train/data/id_tensor.h"
#include "train/fit/autocast.h"
#include "train/fit/batch_gradients.h"
#include "train/fit/batch_share.h"
#include "train/parallel/gradient_sum.h"

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
                    WorkerPool& pool, const BatchShare& share)
      : config_(config),
        pool_(pool),
        share_(share),
        shards_(std::move(shards)),
        sum_(Buffers(shards_)),
        blocks_(sum_.blocks()),
        carries_(shards_.size()) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) override {
    const int64_t shards = share_.ShardsOf(batch.rows).own.size();
    // The loss is 0 without targets.
    const int64_t counted = std::max<int64_t>(1, batch.counted());
    std::vector<Evaluation> losses(shards);
    MNEMON_RETURN_IF_ERROR(RunShards(shards, [&](int s) -> absl::Status {
      shards_[s].gradients.zero_();
      MNEMON_ASSIGN_OR_RETURN(
          const Outputs outputs,
          PartOfBatch(batch, s, config_.precision, key, carries_[s]));
      const at::Tensor loss =
          at::cross_entropy_loss(outputs.logits, outputs.targets, {},
                                 at::Reduction::Sum, kNoTarget) /
          static_cast<double>(counted);
      losses[s].nats = loss.item<double>();
      loss.backward();
      return absl::OkStatus();
    }));
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Evaluation> all,
                            share_.Join({TreeSum(losses)}, {batch.rows}));
    MNEMON_RETURN_IF_ERROR(AddShards(static_cast<int>(shards)));
    if (share_.processes() > 1) {
      std::vector<int64_t> blocks = blocks_;
      MNEMON_RETURN_IF_ERROR(share_.JoinSums(buffer(), blocks, batch.rows));
      MNEMON_RETURN_IF_ERROR(AddShards(1));
    }
    return BatchGradient{.loss = all[0].nats, .norm = sum_.Norm()};
  }

  std::string numerics() const override { return TensorNumerics(buffer().device()); }

  const at::Tensor& buffer() const override { return shards_[0].gradients; }

  const std::vector<int64_t>& written_blocks() const override { return blocks_; }

  absl::StatusOr<Carry> TrainingCarry() const override {
    Carry all{.position = carries_[0].position, .tensors = {}};
    for (size_t i = 0; i < carries_[0].tensors.size(); ++i) {
      std::vector<at::Tensor> parts;
      for (const Carry& carry : carries_) {
        if (!carry.fresh()) parts.push_back(carry.tensors[i]);
      }
      MNEMON_ASSIGN_OR_RETURN(all.tensors.emplace_back(),
                              share_.JoinRows(at::cat(parts, 0), config_.data.batch));
    }
    return all;
  }

  void SetTrainingCarry(const Carry& carry) override {
    carries_.assign(shards_.size(), Carry());
    if (carry.fresh()) return;
    const int64_t rows =
        carry.tensors.empty() ? config_.data.batch : carry.tensors[0].size(0);
    const Shards shards = share_.ShardsOf(rows);
    const int64_t first = shards.OwnSequences().begin;
    for (int64_t s = 0; s < shards.own.size(); ++s) {
      const Part part = shards.SequencesOf(s);
      carries_[s].position = carry.position;
      for (const at::Tensor& tensor : carry.tensors) {
        carries_[s].tensors.push_back(
            tensor.narrow(0, first + part.begin, part.size()).contiguous());
      }
    }
  }

  absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) override {
    std::vector<Carry> carries(shards_.size());
    std::vector<Evaluation> own;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) {
      MNEMON_ASSIGN_OR_RETURN(const Batch batch, get(i));
      const int64_t shards = share_.ShardsOf(batch.rows).own.size();
      std::vector<Evaluation> parts(shards);
      MNEMON_RETURN_IF_ERROR(RunShards(shards, [&](int s) -> absl::Status {
        c10::AutoGradMode no_graph(false);
        MNEMON_ASSIGN_OR_RETURN(
            const Outputs outputs,
            PartOfBatch(batch, s, Precision::kFp32, std::nullopt, carries[s]));
        parts[s].Add(outputs.logits, outputs.targets);
        return absl::OkStatus();
      }));
      own.push_back(TreeSum(parts));
      rows.push_back(batch.rows);
    }
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Evaluation> found,
                            share_.Join(own, rows));
    Evaluation all;
    for (const Evaluation& one : found) all.Add(one);
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

  // The sum over all shards; empty if there are none.
  static Evaluation TreeSum(const std::vector<Evaluation>& parts) {
    const auto count = static_cast<int64_t>(parts.size());
    std::vector<Evaluation> sums(SlotsOf(count));
    if (count == 0) return sums[0];
    SumShards(
        0, count, 0, [&](int64_t shard, int64_t to) { sums[to] = parts[shard]; },
        [&](int64_t to, int64_t from) { sums[to].Add(sums[from]); });
    return sums[0];
  }

  // Sums the gradients of the first `shards` into the first one; returns the norm.
  absl::Status AddShards(int shards) {
    if (shards == 0) return absl::OkStatus();
    return pool_.Run([&](int w) {
      sum_.Add(shards, blocks_, w, pool_.size());
      return absl::OkStatus();
    });
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

  // The model's logits for the shard's rows of `batch` after `carry`. Updates `carry`
  // for the next batch.
  absl::StatusOr<Outputs> PartOfBatch(const Batch& batch, int shard,
                                      Precision precision,
                                      std::optional<uint64_t> dropout_key,
                                      Carry& carry) const {
    const Model& model = *shards_[shard].model;
    BeginBatch(batch, model.carry_spec().max_positions(), carry);
    const Shards shards = share_.ShardsOf(batch.rows);
    const Part rows = shards.SequencesOf(shard);
    const int64_t first = shards.OwnSequences().begin + rows.begin;
    ForwardOptions options;
    if (dropout_key) options.dropout = {.key = *dropout_key, .first_row = first};
    const auto part = [&](const std::vector<int64_t>& ids) {
      return IdTensor(ids.data() + first * batch.columns, rows.size(), batch.columns);
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
  const BatchShare share_;
  const std::vector<Shard> shards_;
  GradientSum sum_;              // into the gradients of shard 0
  std::vector<int64_t> blocks_;  // all: autograd writes whole tensors
  std::vector<Carry> carries_;   // of each shard, outside the graph
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchGradients>> MakeAutogradGradients(
    const TrainConfig& config, const Parameters& parameters, WorkerPool& pool,
    ProcessGroup& group) {
  const bool cut = parameters.values().is_cpu();
  const BatchShare share(group, cut ? config.shards : group.size());
  std::vector<AutogradGradients::Shard> shards(
      static_cast<size_t>(share.ShardsOf(config.data.batch).own.size()));
  for (AutogradGradients::Shard& shard : shards) {
    MNEMON_ASSIGN_OR_RETURN(shard.model, MakeModel(config.model));
    shard.gradients = parameters.Bind(*shard.model);
  }
  return std::make_unique<AutogradGradients>(config, std::move(shards), pool, share);
}

}  // namespace mnemon
