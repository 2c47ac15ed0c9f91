// SPDX-License-Identifier: MIT
#include "train/optimiser.h"

#include <cmath>

#include <ATen/ops/zeros_like.h>

namespace mnemon {

Optimiser::Optimiser(const OptimiserOptions& options, at::Tensor values,
                     at::Tensor gradients)
    : options_(options), values_(std::move(values)), gradients_(std::move(gradients)) {
  first_ = at::zeros_like(values_);
  if (options_.kind != OptimiserKind::kSgd) second_ = at::zeros_like(values_);
}

void Optimiser::Apply(double lr, int64_t begin, int64_t end) {
  if (options_.kind == OptimiserKind::kSgd) {
    ApplySgd(static_cast<float>(lr), begin, end);
  } else {
    ApplyAdam(lr, begin, end);
  }
}

void Optimiser::ApplySgd(float lr, int64_t begin, int64_t end) {
  const float decay = static_cast<float>(options_.weight_decay);
  const float momentum = static_cast<float>(options_.momentum);
  float* w = values_.data_ptr<float>();
  float* b = first_.data_ptr<float>();
  const float* g = gradients_.data_ptr<float>();
  for (int64_t i = begin; i < end; ++i) {
    b[i] = momentum * b[i] + (g[i] + decay * w[i]);
    w[i] -= lr * b[i];
  }
}

void Optimiser::ApplyAdam(double lr, int64_t begin, int64_t end) {
  const double t = static_cast<double>(steps_);
  const double correct1 = 1.0 - std::pow(options_.beta1, t);
  const double correct2 = std::sqrt(1.0 - std::pow(options_.beta2, t));
  const bool labml = options_.kind == OptimiserKind::kAdamLabml;
  const bool decoupled = options_.kind == OptimiserKind::kAdamw;
  // labml divides by the second moment as it is and corrects the rate instead.
  const float root_scale = static_cast<float>(labml ? 1.0 : 1.0 / correct2);
  const float rate =
      static_cast<float>(labml ? lr * correct2 / correct1 : lr / correct1);
  const float keep =
      static_cast<float>(decoupled ? 1.0 - lr * options_.weight_decay : 1.0);
  const float decay = static_cast<float>(decoupled ? 0.0 : options_.weight_decay);
  const float b1 = static_cast<float>(options_.beta1);
  const float b2 = static_cast<float>(options_.beta2);
  const float a1 = static_cast<float>(1.0 - options_.beta1);
  const float a2 = static_cast<float>(1.0 - options_.beta2);
  const float eps = static_cast<float>(options_.eps);
  float* w = values_.data_ptr<float>();
  float* m = first_.data_ptr<float>();
  float* v = second_.data_ptr<float>();
  const float* gradient = gradients_.data_ptr<float>();
  for (int64_t i = begin; i < end; ++i) {
    const float g = gradient[i] + decay * w[i];
    m[i] = b1 * m[i] + a1 * g;
    v[i] = b2 * v[i] + a2 * g * g;
    w[i] = keep * w[i] - rate * m[i] / (std::sqrt(v[i]) * root_scale + eps);
  }
}

std::vector<std::pair<std::string, at::Tensor>> Optimiser::Buffers() const {
  if (options_.kind == OptimiserKind::kSgd) return {{"momentum", first_}};
  return {{"first_moment", first_}, {"second_moment", second_}};
}

}  // namespace mnemon
