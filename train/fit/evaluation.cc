// SPDX-License-Identifier: MIT
#include "train/fit/evaluation.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>

namespace mnemon {

void Evaluation::Add(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor counts = targets.ge(0);
  positions += counts.sum().item<int64_t>();
  correct += logits.argmax(-1).eq(targets).sum().item<int64_t>();
  // A float cannot hold the sum over a long text.
  nats -= at::log_softmax(logits, -1)
              .gather(-1, targets.clamp_min(0).unsqueeze(-1))
              .squeeze(-1)
              .masked_fill(counts.logical_not(), 0)
              .sum(at::kDouble)
              .item<double>();
}

void Evaluation::Add(const Evaluation& other) {
  positions += other.positions;
  correct += other.correct;
  nats += other.nats;
}

}  // namespace mnemon
