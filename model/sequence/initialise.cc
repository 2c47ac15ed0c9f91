// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <c10/core/GradMode.h>

#include "model/compute/tensor_names.h"
#include "model/sequence/model.h"

namespace mnemon {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.ends_with(end);
}

// The part of a name after "layers.{i}."; empty outside the layers.
std::string PartOfLayer(const std::string& name) {
  if (!name.starts_with("layers.")) return "";
  return name.substr(name.find('.', sizeof("layers.") - 1) + 1);
}

// The weights of norms whose gain is 1 + weight.
std::set<std::string> RaisedNorms(const ModelDescription& model) {
  std::set<std::string> found;
  const auto add = [&](const Norm& norm, std::string base) {
    if (norm.one_plus) found.insert(names::Weight(std::move(base)));
  };
  add(model.head.norm, names::kNorm);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (const SubLayer& sub : model.layers[i]) {
      const std::string base = BaseOf(i, sub);
      add(sub.norm, base + ".norm");
      add(sub.behind, base + ".behind_norm");
      add(sub.after, base + ".after_norm");
      const auto* attention = std::get_if<Attention>(&sub.block);
      if (attention == nullptr) continue;
      add(attention->query_norm, base + ".query_norm");
      add(attention->key_norm, base + ".key_norm");
    }
  }
  return found;
}

// Draws tensors in the order of Visit.
class Initialiser {
 public:
  Initialiser(const ModelDescription& model, Initialisation kind, uint64_t seed)
      : model_(model),
        kind_(kind),
        raised_(RaisedNorms(model)),
        generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  void Draw(const std::string& name, at::Tensor& tensor) {
    if (name == names::Weight(names::kEmbed)) {
      // Sane: unit variance where the stack reads it, after the factor sqrt(D); and
      // logits of unit variance if it is also the head.
      const bool shrink = kind_ == Initialisation::kSane &&
                          (model_.embedding.scale != 1 || model_.head.tied);
      tensor.normal_(0.0, shrink ? 1.0 / std::sqrt(model_.width) : 1.0, generator_);
    } else if (name == names::kMemoryMix || EndsWith(name, "norm.weight")) {
      tensor.fill_(raised_.contains(name) ? 0.0 : 1.0);
    } else if (EndsWith(name, ".weight") && name != names::Weight(names::kPositions)) {
      fan_in_ = tensor.size(1);
      DrawUniform(tensor);
    } else if (EndsWith(name, ".bias") && !EndsWith(name, "norm.bias") &&
               kind_ == Initialisation::kReference) {
      DrawUniform(tensor);
    } else if (EndsWith(name, ".relative_bias") && kind_ == Initialisation::kSane) {
      DrawRecency(PastOf(name), tensor);
    } else {
      // Other position tables, norm biases, and all biases of the sane kind.
      tensor.zero_();
    }
  }

 private:
  // Older memories get lower scores, as in "Train Short, Test Long" (Press, Smith,
  // Lewis, 2021), with slopes from 1/2 (first head) to 1/32 (last). Rows of distances
  // that training never reaches keep them; with 0 their many memories would outweigh
  // the near ones.
  void DrawRecency(int64_t rows, at::Tensor& bias) {  // [.., H]; distance n in row P-n
    const int64_t heads = bias.size(1);
    bias.zero_();
    at::Tensor past = bias.narrow(0, 0, rows);
    for (int64_t h = 0; h < heads; ++h) {
      const double exponent = heads == 1 ? 3.0 : 1.0 + 4.0 * h / (heads - 1.0);
      past.select(1, h).copy_(at::arange(rows, 0, -1, bias.options()) *
                              -std::exp2(-exponent));
    }
  }

  // P of the tables that the tensor belongs to.
  int64_t PastOf(const std::string& name) const {
    for (size_t i = 0; i < model_.layers.size(); ++i) {
      for (const SubLayer& sub : model_.layers[i]) {
        const auto* attention = std::get_if<Attention>(&sub.block);
        if (attention != nullptr && name.starts_with(BaseOf(i, sub) + ".")) {
          return attention->relative()->past;
        }
      }
    }
    return 0;
  }

  void DrawUniform(at::Tensor& tensor) {
    const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in_));
    tensor.uniform_(-bound, bound, generator_);
  }

  const ModelDescription& model_;
  const Initialisation kind_;
  const std::set<std::string> raised_;
  at::Generator generator_;
  int64_t fan_in_ = 1;  // of the last linear weight, whose bias comes next
};

}  // namespace

void InitialiseWeights(Model& model, Initialisation kind, uint64_t seed) {
  at::NoGradGuard no_grad;
  const ModelDescription& description = model.description();
  Initialiser initialiser(description, kind, seed);
  std::map<std::string, at::Tensor> first_layer;
  // labml clones one layer; the encoder's notebook draws each.
  const bool copies =
      kind == Initialisation::kReference && !description.whole_sequences;
  model.Visit([&](const std::string& name, at::Tensor& tensor) {
    const std::string part = PartOfLayer(name);
    if (copies && !part.empty()) {
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
