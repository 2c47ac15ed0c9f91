// SPDX-License-Identifier: MIT
#include "model/layers/dropout.h"

#include <utility>

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

namespace mnemon {

Dropout::Dropout(double p, std::optional<at::Generator> generator)
    : p_(p), generator_(std::move(generator)) {}

at::Tensor Dropout::operator()(const at::Tensor& x) const {
  if (!generator_ || p_ == 0.0) return x;
  const double keep = 1.0 - p_;
  // In bfloat16 1 / keep would be off by up to 0.2 % wherever it stands.
  const at::Tensor mask =
      at::empty_like(x.detach(), x.options().dtype(at::toOpMathType(x.scalar_type())),
                     at::MemoryFormat::Contiguous)
          .bernoulli_(keep, *generator_)
          .div_(keep);
  return x * mask;
}

}  // namespace mnemon
