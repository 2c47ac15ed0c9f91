// SPDX-License-Identifier: MIT
#include "train/optimiser.h"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>

namespace mnemon {

Optimiser::Optimiser(const OptimiserOptions& options, at::Tensor values,
                     at::Tensor gradients)
    : options_(options), values_(std::move(values)), gradients_(std::move(gradients)) {
  first_ = at::zeros_like(values_);
  if (options_.kind != OptimiserKind::kSgd) second_ = at::zeros_like(values_);
}

// The factors of one update, the same for all elements.
struct Optimiser::AdamStep {
  float keep, decay;      // of the weight
  float b1, b2, a1, a2;   // of the moments, a = 1 - b
  float rate;             // of the step
  float root_scale, eps;  // of its divisor
};

void Optimiser::Apply(double lr, int64_t begin, int64_t end) {
  const bool here = values_.is_cpu();
  if (options_.kind == OptimiserKind::kSgd) {
    const float rate = static_cast<float>(lr);
    here ? ApplySgd(rate, begin, end) : ApplySgdThere(rate, begin, end);
  } else {
    const AdamStep step = MakeAdamStep(lr);
    here ? ApplyAdam(step, begin, end) : ApplyAdamThere(step, begin, end);
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

void Optimiser::ApplySgdThere(float lr, int64_t begin, int64_t end) {
  const auto part = [&](const at::Tensor& all) {
    return all.narrow(0, begin, end - begin);
  };
  at::Tensor w = part(values_), b = part(first_);
  b.mul_(options_.momentum).add_(part(gradients_)).add_(w, options_.weight_decay);
  w.sub_(b, lr);
}

Optimiser::AdamStep Optimiser::MakeAdamStep(double lr) const {
  const double t = static_cast<double>(steps_);
  const double correct1 = 1.0 - std::pow(options_.beta1, t);
  const double correct2 = std::sqrt(1.0 - std::pow(options_.beta2, t));
  const bool labml = options_.kind == OptimiserKind::kAdamLabml;
  const bool decoupled = options_.kind == OptimiserKind::kAdamw;
  AdamStep step;
  // labml divides by the second moment as it is and corrects the rate instead.
  step.root_scale = static_cast<float>(labml ? 1.0 : 1.0 / correct2);
  step.rate = static_cast<float>(labml ? lr * correct2 / correct1 : lr / correct1);
  step.keep = static_cast<float>(decoupled ? 1.0 - lr * options_.weight_decay : 1.0);
  step.decay = static_cast<float>(decoupled ? 0.0 : options_.weight_decay);
  step.b1 = static_cast<float>(options_.beta1);
  step.b2 = static_cast<float>(options_.beta2);
  step.a1 = static_cast<float>(1.0 - options_.beta1);
  step.a2 = static_cast<float>(1.0 - options_.beta2);
  step.eps = static_cast<float>(options_.eps);
  return step;
}

void Optimiser::ApplyAdam(const AdamStep& step, int64_t begin, int64_t end) {
  const auto [keep, decay, b1, b2, a1, a2, rate, root_scale, eps] = step;
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

void Optimiser::ApplyAdamThere(const AdamStep& step, int64_t begin, int64_t end) {
  const auto part = [&](const at::Tensor& all) {
    return all.narrow(0, begin, end - begin);
  };
  at::Tensor w = part(values_), m = part(first_), v = part(second_);
  const at::Tensor g = part(gradients_) + w * step.decay;
  m.mul_(step.b1).add_(g, step.a1);
  v.mul_(step.b2).addcmul_(g, g, step.a2);
  w.mul_(step.keep).addcdiv_(m, v.sqrt() * step.root_scale + step.eps, -step.rate);
}

std::vector<std::pair<std::string, at::Tensor>> Optimiser::Buffers() const {
  if (options_.kind == OptimiserKind::kSgd) return {{"momentum", first_}};
  return {{"first_moment", first_}, {"second_moment", second_}};
}

}  // namespace mnemon
