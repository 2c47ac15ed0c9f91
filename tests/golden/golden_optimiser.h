// SPDX-License-Identifier: MIT
// The optimisers of the reference numbers, written out once more.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "model/sequence/model.h"
#include "nlohmann/json.hpp"

namespace mnemon {

// One optimiser per kind named in the configs; t counts per parameter from 1.
class GoldenOptimiser {
 public:
  GoldenOptimiser(Model& model, const nlohmann::json& settings)
      : model_(model), settings_(settings) {}

  void Update() {
    at::NoGradGuard no_grad;
    ++t_;
    const double clip = settings_.contains("clip_grad_norm") ? ClipFactor() : 1.0;
    model_.Visit([&](const std::string& name, at::Tensor& weight) {
      if (!weight.grad().defined()) return;
      const at::Tensor gradient = weight.grad() * clip;
      weight.sub_(settings_["optimizer"] == "sgd" ? gradient * lr()
                                                  : AdamStep(name, gradient));
      weight.mutable_grad().reset();
    });
  }

 private:
  // Uses the notebook's cosine schedule if the settings have one; its first update is
  // number 0.
  double lr() const {
    const double lr = settings_["lr"];
    if (!settings_.contains("max_iter")) return lr;
    const double s = static_cast<double>(t_ - 1);
    return lr * 0.5 * (1.0 + std::cos(M_PI * s / settings_["max_iter"].get<double>())) *
           std::min(1.0, s / settings_["warmup"].get<double>());
  }
  double ClipFactor() {
    double squares = 0.0;
    model_.Visit([&](const std::string&, at::Tensor& weight) {
      if (weight.grad().defined()) {
        squares += weight.grad().square().sum().item<double>();
      }
    });
    const double limit = settings_["clip_grad_norm"].get<double>();
    return std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
  }
  at::Tensor AdamStep(const std::string& name, const at::Tensor& gradient) {
    const double b1 = settings_["betas"][0], b2 = settings_["betas"][1];
    const double eps = settings_["eps"], t = t_;
    auto& [m, v] = moments_[name];
    if (!m.defined()) m = at::zeros_like(gradient), v = at::zeros_like(gradient);
    m.mul_(b1).add_(gradient, 1.0 - b1);
    v.mul_(b2).add_(gradient.square(), 1.0 - b2);
    const double c1 = 1.0 - std::pow(b1, t), c2 = std::sqrt(1.0 - std::pow(b2, t));
    if (settings_["optimizer"] == "adam") {
      return m * (lr() / c1) / (v.sqrt() / c2 + eps);
    }
    const double width = settings_["d_model"], warmup = settings_["warmup"];
    const double rate = lr() / std::sqrt(width) *
                        std::min(1.0 / std::sqrt(t), t * std::pow(warmup, -1.5));
    return m * (rate * c2 / c1) / (v.sqrt() + eps);
  }

  Model& model_;
  const nlohmann::json settings_;
  std::map<std::string, std::array<at::Tensor, 2>> moments_;
  int64_t t_ = 0;
};

}  // namespace mnemon
