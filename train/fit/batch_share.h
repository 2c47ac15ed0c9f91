// SPDX-License-Identifier: MIT
// The part of every batch that one process computes, and the sums over all processes.
// Process p computes a node of the tree of shards; every process adds all nodes in the
// order of that tree. So a run has the same bits in 1, 2, 4, .. processes.
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

// All functions but ShardsOf call the group: every process must call them in the same
// order.
class BatchShare {
 public:
  // Batches are cut into up to `shards`. `group`, whose size is a power of two, must
  // outlive it.
  BatchShare(ProcessGroup& group, int64_t shards) : group_(group), shards_(shards) {}

  int processes() const { return group_.size(); }
  // The shards of a batch of `rows` sequences; this process may have none of them.
  Shards ShardsOf(int64_t rows) const { return ShardsOf(rows, group_.rank()); }

  // Sums over all processes. Batch i has rows[i] sequences, and own[i] is this
  // process's part of its evaluation.
  absl::StatusOr<std::vector<Evaluation>> Join(const std::vector<Evaluation>& own,
                                               const std::vector<int64_t>& rows) const;

  // Concatenates the processes' own rows [own, ...] to [rows, ...].
  absl::StatusOr<at::Tensor> JoinRows(const at::Tensor& own, int64_t rows) const;

  // Adds `sums` [size] of a batch of `rows` sequences over all processes. `blocks`: the
  // blocks of kFlatBlock elements that this process has written, ascending; others
  // count as 0. Becomes the union over the processes.
  absl::Status JoinSums(at::Tensor sums, std::vector<int64_t>& blocks,
                        int64_t rows) const;

 private:
  Shards ShardsOf(int64_t rows, int process) const;
  // The processes that have rows of a batch, ascending.
  std::vector<int> ProcessesOf(int64_t rows) const;
  absl::Status JoinBlocks(int64_t count, std::vector<int64_t>& blocks) const;

  ProcessGroup& group_;
  const int64_t shards_;
};

}  // namespace mnemon
