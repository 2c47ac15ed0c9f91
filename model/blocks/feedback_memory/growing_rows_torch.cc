// SPDX-License-Identifier: MIT
#include "model/blocks/feedback_memory/growing_rows_torch.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"

namespace mnemon {
namespace {

// The first `count` rows as a separate tensor: with the buffer's storage, but neither
// its history nor its version counter, so that later appends do not count as changes of
// what the graph saved.
at::Tensor Alias(const at::Tensor& buffer, int64_t count) {
  return buffer.narrow(1, 0, count).variable_data();
}

struct AppendRows : torch::autograd::Function<AppendRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& prefix, const at::Tensor& rows,
                            at::Tensor& buffer) {
    const int64_t n = prefix.size(1), m = rows.size(1);
    context->saved_data["n"] = n;
    context->saved_data["m"] = m;
    buffer.narrow(1, n, m).copy_(rows);
    return Alias(buffer, n + m);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& grads) {
    const int64_t n = context->saved_data["n"].toInt();
    const int64_t m = context->saved_data["m"].toInt();
    return {grads[0].narrow(1, 0, n), grads[0].narrow(1, n, m), at::Tensor()};
  }
};

}  // namespace

void GrowingRows::Append(const at::Tensor& rows) {
  if (!buffer_.defined()) {
    buffer_ = at::empty({rows.size(0), capacity_, rows.size(2)}, rows.options());
  }
  const at::Tensor prefix = empty() ? Alias(buffer_, 0) : prefix_;
  MNEMON_CHECK(prefix.size(1) + rows.size(1) <= capacity_);
  prefix_ = AppendRows::apply(prefix, rows, buffer_);
}

}  // namespace mnemon
