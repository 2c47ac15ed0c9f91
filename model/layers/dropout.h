// SPDX-License-Identifier: MIT
// Dropout with masks from a generator of its own.
#pragma once

#include <optional>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace mnemon {

// Inverted dropout: each element is 0 with probability p, else divided by 1 - p. The
// identity without a generator (evaluation) or with p = 0; else float32 for bfloat16.
// Masks come from the generator alone, in the order of the calls. Lives for one
// Forward; one thread.
class Dropout {
 public:
  Dropout(double p, std::optional<at::Generator> generator);

  at::Tensor operator()(const at::Tensor& x) const;

 private:
  const double p_;
  const std::optional<at::Generator> generator_;
};

}  // namespace mnemon
