// SPDX-License-Identifier: MIT
#include "train/commands/row_feed.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "base/status_macros.h"
#include "model/compute/kernels.h"
#include "model/state/arena.h"

namespace mnemon {
namespace {

class SequenceFeed final : public RowFeed {
 public:
  SequenceFeed(const Model& model, const at::Tensor& mask)
      : model_(model), mask_(mask) {}

  int64_t most_rows() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t most_tokens() const override { return std::numeric_limits<int64_t>::max(); }

  absl::Status Restart(int64_t) override {
    carry_ = {};
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) override {
    const at::NoGradGuard no_grad;
    MNEMON_ASSIGN_OR_RETURN(ForwardResult result,
                            model_.Forward(tokens, carry_, {.mask = mask_}));
    carry_ = std::move(result.carry);
    return result.logits.to(at::kCPU);
  }

 private:
  const Model& model_;
  const at::Tensor mask_;
  Carry carry_;
};

class SplitFeed final : public RowFeed {
 public:
  SplitFeed(const Model& model, WorkerPool& pool)
      : model_(model), pool_(pool), carries_(pool.size()) {}

  int64_t most_rows() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t most_tokens() const override { return std::numeric_limits<int64_t>::max(); }

  absl::Status Restart(int64_t) override {
    carries_.assign(carries_.size(), {});
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) override {
    // Rows stay with their worker, where their carry is.
    const std::vector<at::Tensor> parts = tokens.tensor_split(pool_.size());
    std::vector<at::Tensor> logits(std::min<int64_t>(tokens.size(0), pool_.size()));
    MNEMON_RETURN_IF_ERROR(pool_.Run([&](int w) -> absl::Status {
      const at::NoGradGuard no_grad;
      if (parts[w].size(0) == 0) return absl::OkStatus();
      MNEMON_ASSIGN_OR_RETURN(ForwardResult result,
                              model_.Forward(parts[w], carries_[w]));
      carries_[w] = std::move(result.carry);
      logits[w] = result.logits.to(at::kCPU);
      return absl::OkStatus();
    }));
    return at::cat(logits);
  }

 private:
  const Model& model_;
  WorkerPool& pool_;
  std::vector<Carry> carries_;  // of the rows of each worker
};

class StepFeed final : public RowFeed {
 public:
  StepFeed(std::unique_ptr<Decoder> decoder, std::unique_ptr<StateArena> arena,
           int64_t rows)
      : decoder_(std::move(decoder)), arena_(std::move(arena)), most_rows_(rows) {}

  int64_t most_rows() const override { return most_rows_; }
  int64_t most_tokens() const override { return kMaxChunk; }

  absl::Status Restart(int64_t rows) override {
    for (const int32_t slot : slots_) arena_->Release(slot);
    slots_.clear();
    for (int64_t row = 0; row < rows; ++row) {
      MNEMON_ASSIGN_OR_RETURN(const int32_t slot, arena_->Acquire());
      slots_.push_back(slot);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) override {
    const at::Tensor ids = tokens.to(at::kInt).contiguous();
    const auto count = static_cast<size_t>(tokens.size(1));
    std::vector<Segment> segments;
    const int32_t* row = ids.data_ptr<int32_t>();
    for (const int32_t slot : slots_) {
      segments.push_back({.slot = slot,
                          .position = arena_->length(slot),
                          .tokens = {row, count},
                          .logits = LogitsMode::kAll});
      row += count;
    }
    const at::Tensor logits = at::empty(
        {tokens.size(0), tokens.size(1), decoder_->model().vocab}, at::kFloat);
    MNEMON_RETURN_IF_ERROR(decoder_->Step(segments, *arena_, logits.data_ptr<float>()));
    // A ring's old rows are never asked for again.
    for (const int32_t slot : slots_) arena_->SetFloor(slot, arena_->length(slot));
    return logits;
  }

 private:
  const std::unique_ptr<Decoder> decoder_;
  const std::unique_ptr<StateArena> arena_;
  const int64_t most_rows_;
  std::vector<int32_t> slots_;  // of the rows
};

}  // namespace

std::unique_ptr<RowFeed> MakeSequenceFeed(const Model& model, const at::Tensor& mask) {
  return std::make_unique<SequenceFeed>(model, mask);
}

std::unique_ptr<RowFeed> MakeSplitFeed(const Model& model, WorkerPool& pool) {
  return std::make_unique<SplitFeed>(model, pool);
}

absl::StatusOr<std::unique_ptr<RowFeed>> MakeStepFeed(std::unique_ptr<Decoder> decoder,
                                                      int64_t rows) {
  MNEMON_ASSIGN_OR_RETURN(
      std::unique_ptr<StateArena> arena,
      StateArena::Create(decoder->spec(), {.slots = static_cast<int32_t>(rows),
                                           .memory = decoder->MakeStateMemory()}));
  return std::make_unique<StepFeed>(std::move(decoder), std::move(arena), rows);
}

}  // namespace mnemon
