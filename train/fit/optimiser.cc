// SPDX-License-Identifier: MIT
#include "train/fit/optimiser.h"

#include <algorithm>
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

void Optimiser::Apply(double lr, double scale, int64_t begin, int64_t end) {
  const bool here = values_.is_cpu();
  const auto data = [here](const at::Tensor& buffer) {
    return here ? buffer.data_ptr<float>() : nullptr;
  };
  if (options_.kind == OptimiserKind::kSgd) {
    const SgdPass pass = {.rate = static_cast<float>(lr),
                          .momentum = static_cast<float>(options_.momentum),
                          .decay = static_cast<float>(options_.weight_decay),
                          .scale = static_cast<float>(scale),
                          .gradients = data(gradients_),
                          .weights = data(values_),
                          .buffer = data(first_)};
    here ? ApplySgd(pass, begin, end) : ApplySgdThere(pass, begin, end);
  } else {
    const AdamPass pass = {.factors = MakeAdamFactors(lr),
                           .scale = static_cast<float>(scale),
                           .gradients = data(gradients_),
                           .weights = data(values_),
                           .first = data(first_),
                           .second = data(second_)};
    here ? ApplyAdam(pass, begin, end) : ApplyAdamThere(pass, begin, end);
  }
}

void Optimiser::ApplySgdThere(const SgdPass& pass, int64_t begin, int64_t end) {
  const auto part = [&](const at::Tensor& all) {
    return all.narrow(0, begin, end - begin);
  };
  at::Tensor w = part(values_), b = part(first_);
  b.mul_(pass.momentum).add_(part(gradients_), pass.scale).add_(w, pass.decay);
  w.sub_(b, pass.rate);
}

AdamFactors Optimiser::MakeAdamFactors(double lr) const {
  const double t = static_cast<double>(steps_);
  const double correct1 = 1.0 - std::pow(options_.beta1, t);
  const double correct2 = std::sqrt(1.0 - std::pow(options_.beta2, t));
  const bool labml = options_.kind == OptimiserKind::kAdamLabml;
  const bool decoupled = options_.kind == OptimiserKind::kAdamw;
  AdamFactors step;
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

void Optimiser::ApplyAdamThere(const AdamPass& pass, int64_t begin, int64_t end) {
  const auto part = [&](const at::Tensor& all) {
    return all.narrow(0, begin, end - begin);
  };
  const AdamFactors& f = pass.factors;
  at::Tensor w = part(values_), m = part(first_), v = part(second_);
  const at::Tensor g = part(gradients_) * pass.scale + w * f.decay;
  m.mul_(f.b1).add_(g, f.a1);
  v.mul_(f.b2).addcmul_(g, g, f.a2);
  w.mul_(f.keep).addcdiv_(m, v.sqrt() * f.root_scale + f.eps, -f.rate);
}

std::vector<int64_t> Optimiser::ChangingBlocks() const {
  const int64_t size = values_.numel();
  std::vector<int64_t> blocks;
  for (int64_t b = 0; b * kFlatBlock < size; ++b) {
    const int64_t begin = b * kFlatBlock, end = std::min(size, begin + kFlatBlock);
    const auto holds = [&](const at::Tensor& buffer) {
      return buffer.defined() &&
             buffer.narrow(0, begin, end - begin).count_nonzero().item<int64_t>() > 0;
    };
    if (!values_.is_cpu() || options_.weight_decay != 0 || holds(first_) ||
        holds(second_)) {
      blocks.push_back(b);
    }
  }
  return blocks;
}

std::vector<std::pair<std::string, at::Tensor>> Optimiser::Buffers() const {
  if (options_.kind == OptimiserKind::kSgd) return {{"momentum", first_}};
  return {{"first_moment", first_}, {"second_moment", second_}};
}

}  // namespace mnemon
