// SPDX-License-Identifier: MIT
// The part of every batch that one process of a run computes, and how what all have
// found comes together: process p computes a node of the tree of shards, and every
// process adds the nodes in the order of that tree. So a run has the same bits in 1, 2,
// 4, .. processes.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/compute/gradient/shards.h"
#include "train/fit/evaluation.h"
#include "train/parallel/process_group.h"

namespace mnemon {

// All functions but ShardsOf are calls of the group: every process makes them, in the
// same order.
class BatchShare {
 public:
  // Batches are cut into up to `shards`. `group`, whose size is a power of two, must
  // outlive it.
  BatchShare(ProcessGroup& group, int64_t shards) : group_(group), shards_(shards) {}

  int processes() const { return group_.size(); }
  // Those of a batch of `rows` sequences; the own ones may be none.
  Shards ShardsOf(int64_t rows) const { return ShardsOf(rows, group_.rank()); }

  // Batch i has rows[i] sequences, in which this process has found own[i].
  absl::StatusOr<std::vector<Evaluation>> Join(const std::vector<Evaluation>& own,
                                               const std::vector<int64_t>& rows) const;

  // [rows, ...] of the processes' own rows [own, ...].
  absl::StatusOr<at::Tensor> JoinRows(const at::Tensor& own, int64_t rows) const;

  // Adds the `sums` [size] of a batch of `rows` sequences. Those outside `blocks` of
  // kFlatBlock, ascending, count as 0; the blocks become those of all processes.
  absl::Status JoinSums(at::Tensor sums, std::vector<int64_t>& blocks,
                        int64_t rows) const;

 private:
  Shards ShardsOf(int64_t rows, int process) const;
  // Those that have rows of a batch, ascending.
  std::vector<int> ProcessesOf(int64_t rows) const;
  absl::Status JoinBlocks(int64_t count, std::vector<int64_t>& blocks) const;

  ProcessGroup& group_;
  const int64_t shards_;
};

}  // namespace mnemon
