// SPDX-License-Identifier: MIT
// Gradients by the hand-written passes of model/gradient.
#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "base/strings.h"
#include "model/gradient/gradient_pass.h"
#include "train/batch_gradients.h"
#include "train/flat_operations.h"
#include "train/gradient_sum.h"

namespace mnemon {
namespace {

class FusedGradients final : public BatchGradients {
 public:
  FusedGradients(const TrainConfig& config, const StateSpec& carry_spec,
                 at::Tensor values, at::Tensor gradients,
                 std::unique_ptr<GradientPass<float>> pass, WorkerPool& pool)
      : config_(config),
        carry_spec_(carry_spec),
        values_(std::move(values)),
        gradients_(std::move(gradients)),
        pass_(std::move(pass)),
        pool_(pool),
        sum_({gradients_}) {}

  absl::StatusOr<BatchGradient> Compute(const Batch& batch, uint64_t key) override {
    MNEMON_ASSIGN_OR_RETURN(
        const PassLoss loss,
        Run(batch, DropoutKey{.key = key}, gradients_.data_ptr<float>(), carry_));
    FindWrittenBlocks();
    MNEMON_RETURN_IF_ERROR(pool_.Run([&](int w) {
      sum_.Add(1, blocks_, w, pool_.size());
      return absl::OkStatus();
    }));
    const double scale =
        1.0 / static_cast<double>(std::max<int64_t>(1, batch.counted()));
    return BatchGradient{
        .loss = loss.nats * scale, .norm = sum_.Norm() * scale, .scale = scale};
  }

  std::string numerics() const override {
    return StrCat("passes, revision ", kPassRevision);
  }

  const at::Tensor& buffer() const override { return gradients_; }

  const std::vector<int64_t>& written_blocks() const override { return blocks_; }

  Carry TrainingCarry() const override {
    Carry carry{.position = carry_.position, .tensors = {}};
    for (size_t i = 0; i < carry_.entries.size(); ++i) {
      const auto& [count, values] = carry_.entries[i];
      const StateEntry& entry = carry_spec_.entries[i];
      std::vector<int64_t> shape = {config_.data.batch};
      if (entry.growth != Growth::kFixed) shape.push_back(count);
      shape.insert(shape.end(), entry.shape.begin(), entry.shape.end());
      at::Tensor tensor = at::empty(shape, at::kFloat);
      std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
      carry.tensors.push_back(std::move(tensor));
    }
    return carry;
  }

  void SetTrainingCarry(const Carry& carry) override {
    carry_ = {.position = carry.position, .entries = {}};
    for (size_t i = 0; i < carry.tensors.size(); ++i) {
      const at::Tensor tensor = carry.tensors[i].contiguous();
      const bool grows = carry_spec_.entries[i].growth != Growth::kFixed;
      const float* const values = tensor.data_ptr<float>();
      carry_.entries.push_back({.count = grows ? tensor.size(1) : 1,
                                .values = {values, values + tensor.numel()}});
    }
  }

  absl::StatusOr<Evaluation> Evaluate(const GetBatch& get, int64_t count) override {
    PassCarry<float> carry;
    Evaluation all;
    for (int64_t i = 0; i < count; ++i) {
      const Batch batch = get(i);
      MNEMON_ASSIGN_OR_RETURN(const PassLoss loss,
                              Run(batch, std::nullopt, nullptr, carry));
      all.Add(
          {.positions = batch.counted(), .correct = loss.correct, .nats = loss.nats});
    }
    return all;
  }

 private:
  absl::StatusOr<PassLoss> Run(const Batch& batch, std::optional<DropoutKey> dropout,
                               float* gradients, PassCarry<float>& carry) {
    BeginBatch(batch, carry_spec_.max_positions(), carry);
    inputs_.assign(batch.inputs.begin(), batch.inputs.end());
    targets_.assign(batch.targets.begin(), batch.targets.end());
    const PassInput input = {
        .sequences = batch.rows,
        .time = batch.columns,
        .tokens = inputs_.data(),
        .targets = targets_.data(),
        .shards = std::min(config_.shards, batch.rows),
        .dropout = dropout,
        .continues = config_.data.loader == LoaderKind::kSequential};
    return pass_->Run(input, values_.data_ptr<float>(), gradients, carry);
  }

  void FindWrittenBlocks() {
    std::vector<bool> unused(static_cast<size_t>(sum_.blocks()));
    for (const Part& range : pass_->UnusedGradients()) {
      const int64_t first = (range.begin + kFlatBlock - 1) / kFlatBlock;
      for (int64_t b = first; b < range.end / kFlatBlock; ++b) unused[b] = true;
    }
    blocks_.clear();
    for (int64_t b = 0; b < sum_.blocks(); ++b) {
      if (!unused[b]) blocks_.push_back(b);
    }
  }

  const TrainConfig config_;
  const StateSpec carry_spec_;
  const at::Tensor values_, gradients_;
  const std::unique_ptr<GradientPass<float>> pass_;
  WorkerPool& pool_;
  GradientSum sum_;              // of one buffer: its norm
  std::vector<int64_t> blocks_;  // written
  PassCarry<float> carry_;
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace

std::unique_ptr<BatchGradients> MakeFusedGradients(const TrainConfig& config,
                                                   const Model& model,
                                                   const Parameters& parameters,
                                                   WorkerPool& pool) {
  auto pass =
      MakeGradientPass<float>(config.model, parameters.Layout(), pool.threads());
  if (pass == nullptr) return nullptr;
  return std::make_unique<FusedGradients>(config, model.carry_spec(),
                                          parameters.values(), parameters.MakeBuffer(),
                                          std::move(pass), pool);
}

}  // namespace mnemon
