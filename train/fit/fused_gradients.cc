// SPDX-License-Identifier: MIT
// Gradients by the hand-written passes of model/gradient.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/gradient/gradient_pass.h"
#include "train/fit/batch_gradients.h"
#include "train/fit/batch_share.h"
#include "train/parallel/flat_operations.h"
#include "train/parallel/gradient_sum.h"

namespace mnemon {
namespace {

class FusedGradients final : public BatchGradients {
 public:
  FusedGradients(const TrainConfig& config, const StateSpec& carry_spec,
                 at::Tensor values, std::unique_ptr<GradientPass<float>> pass,
                 WorkerPool& pool, ProcessGroup& group)
      : config_(config),
        carry_spec_(carry_spec),
        values_(std::move(values)),
        sums_(at::zeros({pass->sums_size()}, at::kFloat)),
        gradients_(sums_.narrow(0, 0, values_.numel())),
        pass_(std::move(pass)),
        pool_(pool),
        share_(group, config.shards),
        sum_({gradients_}) {}

  absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) override {
    MNEMON_ASSIGN_OR_RETURN(const Evaluation own,
                            Run(batch, key, sums_.data_ptr<float>(), carry_));
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Evaluation> all,
                            share_.Join({own}, {batch.rows}));
    std::vector<int64_t> blocks = WrittenBlocks();
    MNEMON_RETURN_IF_ERROR(share_.JoinSums(sums_, blocks, batch.rows));
    pass_->Finish(values_.data_ptr<float>(), sums_.data_ptr<float>());
    std::erase_if(blocks, [&](int64_t block) { return block >= sum_.blocks(); });
    blocks_ = std::move(blocks);
    MNEMON_RETURN_IF_ERROR(pool_.Run([&](int w) {
      sum_.Add(1, blocks_, w, pool_.size());
      return absl::OkStatus();
    }));
    const double scale =
        1.0 / static_cast<double>(std::max<int64_t>(1, batch.counted()));
    return BatchGradient{
        .loss = all[0].nats * scale, .norm = sum_.Norm() * scale, .scale = scale};
  }

  std::string numerics() const override {
    return StrCat("passes, revision ", kPassRevision);
  }

  const at::Tensor& buffer() const override { return gradients_; }

  const std::vector<int64_t>& written_blocks() const override { return blocks_; }

  absl::StatusOr<Carry> TrainingCarry() const override {
    Carry carry{.position = carry_.position, .tensors = {}};
    const int64_t rows = share_.ShardsOf(config_.data.batch).OwnSequences().size();
    for (size_t i = 0; i < carry_.entries.size(); ++i) {
      const auto& [count, values] = carry_.entries[i];
      const StateEntry& entry = carry_spec_.entries[i];
      std::vector<int64_t> shape = {rows};
      if (entry.growth != Growth::kFixed) shape.push_back(count);
      shape.insert(shape.end(), entry.shape.begin(), entry.shape.end());
      at::Tensor tensor = at::empty(shape, at::kFloat);
      std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
      MNEMON_ASSIGN_OR_RETURN(tensor, share_.JoinRows(tensor, config_.data.batch));
      carry.tensors.push_back(std::move(tensor));
    }
    return carry;
  }

  void SetTrainingCarry(const Carry& carry) override {
    carry_ = {.position = carry.position, .entries = {}};
    const Part own = share_.ShardsOf(config_.data.batch).OwnSequences();
    for (size_t i = 0; i < carry.tensors.size(); ++i) {
      const at::Tensor tensor =
          carry.tensors[i].narrow(0, own.begin, own.size()).contiguous();
      const bool grows = carry_spec_.entries[i].growth != Growth::kFixed;
      const float* const values = tensor.data_ptr<float>();
      carry_.entries.push_back({.count = grows ? tensor.size(1) : 1,
                                .values = {values, values + tensor.numel()}});
    }
  }

  absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) override {
    PassCarry<float> carry;
    std::vector<Evaluation> own;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < count; ++i) {
      MNEMON_ASSIGN_OR_RETURN(const Batch batch, get(i));
      MNEMON_ASSIGN_OR_RETURN(own.emplace_back(),
                              Run(batch, std::nullopt, nullptr, carry));
      rows.push_back(batch.rows);
    }
    MNEMON_ASSIGN_OR_RETURN(const std::vector<Evaluation> found,
                            share_.Join(own, rows));
    Evaluation all;
    for (const Evaluation& one : found) all.Add(one);
    return all;
  }

 private:
  // Runs the pass over the own rows of a batch; does nothing if there are none.
  absl::StatusOr<Evaluation> Run(const Batch& batch, std::optional<uint64_t> dropout,
                                 float* sums, PassCarry<float>& carry) {
    BeginBatch(batch, carry_spec_.max_positions(), carry);
    const Shards shards = share_.ShardsOf(batch.rows);
    if (shards.own.size() == 0) return Evaluation();
    const Part rows = shards.OwnSequences();
    const auto own = [&](const std::vector<int64_t>& ids) {
      return std::vector<int32_t>(ids.begin() + rows.begin * batch.columns,
                                  ids.begin() + rows.end * batch.columns);
    };
    const std::vector<int32_t> inputs = own(batch.inputs), targets = own(batch.targets);
    const PassInput input = {
        .shards = shards,
        .time = batch.columns,
        .tokens = inputs.data(),
        .targets = targets.data(),
        .dropout = dropout,
        .continues = config_.data.loader == LoaderKind::kSequential};
    MNEMON_ASSIGN_OR_RETURN(const PassLoss loss,
                            pass_->Run(input, values_.data_ptr<float>(), sums, carry));
    return Evaluation{
        .positions = rows.size() * batch.columns -
                     std::count(targets.begin(), targets.end(), kNoTarget),
        .correct = loss.correct,
        .nats = loss.nats};
  }

  // The blocks of all sums that a pass may write.
  std::vector<int64_t> WrittenBlocks() const {
    const int64_t count = (sums_.numel() + kFlatBlock - 1) / kFlatBlock;
    std::vector<bool> unused(static_cast<size_t>(count));
    for (const Part& range : pass_->UnusedGradients()) {
      const int64_t first = (range.begin + kFlatBlock - 1) / kFlatBlock;
      for (int64_t b = first; b < range.end / kFlatBlock; ++b) unused[b] = true;
    }
    std::vector<int64_t> blocks;
    for (int64_t b = 0; b < count; ++b) {
      if (!unused[b]) blocks.push_back(b);
    }
    return blocks;
  }

  const TrainConfig config_;
  const StateSpec carry_spec_;
  const at::Tensor values_;
  const at::Tensor sums_, gradients_;  // gradients: those of sums that are of weights
  const std::unique_ptr<GradientPass<float>> pass_;
  WorkerPool& pool_;
  const BatchShare share_;
  GradientSum sum_;              // of one buffer: its norm
  std::vector<int64_t> blocks_;  // of the gradients, written
  PassCarry<float> carry_;       // of the own rows
};

}  // namespace

std::unique_ptr<BatchGradients> MakeFusedGradients(const TrainConfig& config,
                                                   const Model& model,
                                                   const Parameters& parameters,
                                                   WorkerPool& pool,
                                                   ProcessGroup& group) {
  auto pass =
      MakeGradientPass<float>(model.description(), parameters.Layout(), pool.threads());
  if (pass == nullptr) return nullptr;
  return std::make_unique<FusedGradients>(
      config, model.carry_spec(), parameters.values(), std::move(pass), pool, group);
}

}  // namespace mnemon
