// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>

#include "model/model.h"
#include "model/tensor_names.h"

namespace mnemon {
namespace {

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

// What follows "layers.{i}." in a name; empty outside the layers.
std::string PartOfLayer(const std::string& name) {
  if (!name.starts_with("layers.")) return "";
  return name.substr(name.find('.', sizeof("layers.") - 1) + 1);
}

// Draws tensors in the order of Visit.
class Initialiser {
 public:
  Initialiser(const ModelConfig& config, Initialisation kind, uint64_t seed)
      : config_(config),
        kind_(kind),
        generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  void Draw(const std::string& name, at::Tensor& tensor) {
    if (name == names::Weight(names::kEmbed)) {
      // Sane: of unit size where the stack reads it, after the factor sqrt(D).
      const bool shrink = kind_ == Initialisation::kSane && config_.embed_scale;
      tensor.normal_(0.0, shrink ? 1.0 / std::sqrt(config_.d_model) : 1.0, generator_);
    } else if (name == names::kMemoryMix || EndsWith(name, "norm.weight")) {
      tensor.fill_(1.0);
    } else if (EndsWith(name, ".weight") && name != names::Weight(names::kPositions)) {
      fan_in_ = tensor.size(1);
      DrawUniform(tensor);
    } else if (EndsWith(name, ".bias") && !EndsWith(name, "norm.bias") &&
               kind_ == Initialisation::kReference) {
      DrawUniform(tensor);
    } else {
      // Position tables, norm biases, and all biases of the sane kind. Table rows that
      // training never reaches then say nothing at longer distances.
      tensor.zero_();
    }
  }

 private:
  void DrawUniform(at::Tensor& tensor) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in_));
    tensor.uniform_(-bound, bound, generator_);
  }

  const ModelConfig& config_;
  const Initialisation kind_;
  at::Generator generator_;
  int64_t fan_in_ = 1;  // of the last linear weight; its bias comes next
};

}  // namespace

void InitialiseWeights(Model& model, Initialisation kind, uint64_t seed) {
  at::NoGradGuard no_grad;
  Initialiser initialiser(model.config(), kind, seed);
  std::map<std::string, at::Tensor> first_layer;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    const std::string part = PartOfLayer(name);
    if (kind == Initialisation::kReference && !part.empty()) {
      const auto [at, inserted] = first_layer.try_emplace(part, tensor);
      if (!inserted) {
        tensor.copy_(at->second);
        return;
      }
    }
    initialiser.Draw(name, tensor);
  });
}

}  // namespace mnemon
