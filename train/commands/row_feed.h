// SPDX-License-Identifier: MIT
// Feeds rows of tokens to a model, piece by piece, and returns their logits. The model
// is in its sequence form or its step form. For score and eval.
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

  // Limits of the rows at a time, and of the tokens of a row in one call.
  virtual int64_t most_rows() const = 0;
  virtual int64_t most_tokens() const = 0;

  // Begins `rows` new sequences. REQUIRES: 1 <= rows <= most_rows().
  virtual absl::Status Restart(int64_t rows) = 0;
  // Takes the next tokens [rows, n] of each, int64; returns logits [rows, n, V]. Both
  // on the CPU. REQUIRES: 1 <= n <= most_tokens(). The errors of Model::Forward or
  // Decoder::Step.
  virtual absl::StatusOr<at::Tensor> Feed(const at::Tensor& tokens) = 0;
};

// Computes as in training; for transformer_xl each call is a segment. `mask`: see
// ForwardOptions::mask. `model` must outlive the result.
std::unique_ptr<RowFeed> MakeSequenceFeed(const Model& model,
                                          const at::Tensor& mask = {});

// The same without a mask. Divides the rows among the threads of `pool`, which run
// whole operations: when libtorch splits every operation, its threads spend most of the
// time waiting for each other. `model` and `pool` must outlive the result.
std::unique_ptr<RowFeed> MakeSplitFeed(const Model& model, WorkerPool& pool);

// Computes as in serving; each row is a session. RESOURCE_EXHAUSTED if memory does not
// suffice.
absl::StatusOr<std::unique_ptr<RowFeed>> MakeStepFeed(std::unique_ptr<Decoder> decoder,
                                                      int64_t rows);

}  // namespace mnemon
