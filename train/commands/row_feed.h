// SPDX-License-Identifier: MIT
// A feed of token rows into a model, piece by piece, which returns their logits; the
// model is in its sequence form or its step form. For score and eval.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/decoder/decoder.h"
#include "model/sequence/model.h"
#include "train/parallel/worker_pool.h"

namespace mnemon {

// Owned by one thread.
class RowFeed {
 public:
  virtual ~RowFeed() = default;

  // Most rows side by side, and most tokens of a row in one call.
  virtual int64_t most_rows() const = 0;
  virtual int64_t most_tokens() const = 0;

  // `rows` new sequences begin. REQUIRES: 1 <= rows <= most_rows().
  virtual absl::Status Restart(int64_t rows) = 0;
  // The next tokens [rows, n] of each, int64 -> logits [rows, n, V], on the CPU.
  // REQUIRES: 1 <= n <= most_tokens(). The errors of Model::Forward or Decoder::Step.
  virtual absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) = 0;
};

// As in training; for transformer_xl each call is a segment. `mask`:
// ForwardOptions::mask. `model` must outlive it.
std::unique_ptr<RowFeed> MakeSequenceFeed(const Model& model,
                                          const at::Tensor& mask = {});

// The same without a mask, the rows split over the threads of `pool`, which run whole
// operations: where libtorch splits every operation instead, its threads wait for each
// other most of the time. `model` and `pool` must outlive it.
std::unique_ptr<RowFeed> MakeSplitFeed(const Model& model, WorkerPool& pool);

// As in serving, each row a session. RESOURCE_EXHAUSTED when memory does not suffice.
absl::StatusOr<std::unique_ptr<RowFeed>> MakeStepFeed(std::unique_ptr<Decoder> decoder,
                                                      int64_t rows);

}  // namespace mnemon
