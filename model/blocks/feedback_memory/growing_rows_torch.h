// SPDX-License-Identifier: MIT
// A list of rows that grows while it is being read, in O(capacity) memory: the idea of
// the Stack of the Feedback Transformer's implementation, with exact gradients and
// without shared accumulators.
//
// All prefixes are views of one buffer, and each is one node of the autograd graph:
//   forward:  prefix [R, n, K], rows [R, m, K] -> prefix [R, n+m, K]; the rows are
//   copied
//             into the buffer, nothing else moves
//   backward: the gradient of the longer prefix is split into that of the shorter one
//             and that of the rows
// Rows once written never change, so whatever the graph saved stays true. Every list
// has a buffer of its own and no state in its backward, so any number of lists and
// backward passes may be alive at once, and a pass may be repeated.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace mnemon {

// Not safe for concurrent use; prefixes handed out outlive the list.
class GrowingRows {
 public:
  explicit GrowingRows(int64_t capacity) : capacity_(capacity) {}

  // Appends rows [R, m, K]. REQUIRES: at most `capacity` rows in all, same R and K.
  void Append(const at::Tensor& rows);

  // All rows so far [R, n, K], oldest first, differentiable. REQUIRES: not empty.
  const at::Tensor& rows() const { return prefix_; }
  bool empty() const { return !prefix_.defined(); }

 private:
  const int64_t capacity_;
  at::Tensor buffer_;  // [R, capacity, K], outside the graph
  at::Tensor prefix_;  // [R, n, K], in the graph
};

}  // namespace mnemon
