// SPDX-License-Identifier: MIT
#include "train/fit/start.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "base/error.h"
#include "base/quote.h"
#include "base/strings.h"
#include "model/blocks/attention/alibi.h"
#include "model/compute/tensor_names.h"
#include "model/sequence/load.h"
#include "model/text/char_tokenizer.h"

namespace mnemon {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

Tensors TensorsOf(Model& model) {
  Tensors tensors;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    tensors[name] = weight.detach();
  });
  return tensors;
}

// Reasons why a feedback model cannot start from this causal transformer.
std::vector<std::string> Differences(const ModelConfig& from, const ModelConfig& to) {
  std::vector<std::string> faults;
  const auto same = [&](const char* key, int64_t a, int64_t b) {
    if (a != b) faults.push_back(StrCat("its ", key, " is ", a, ", not ", b));
  };
  same("d_model", from.d_model, to.d_model);
  same("heads", from.heads, to.heads);
  same("layers", from.layers, to.layers);
  same("d_ff", from.d_ff, to.d_ff);
  same("vocab", from.vocab, to.vocab);
  if (from.position_kind == PositionKind::kSinusoidal ||
      from.position_kind == PositionKind::kLearned) {
    faults.push_back(StrCat("its position_kind is ", Name(from.position_kind),
                            ": feedback has relative positions, and starts from "
                            "relative, alibi or none"));
  }
  if (from.activation != Activation::kRelu || from.gated) {
    faults.push_back("its feed-forward has another activation");
  }
  if (to.position_bias != PositionBias::kFree) {
    faults.push_back("model.position_bias must be free");
  }
  return faults;
}

class FromCausal {
 public:
  FromCausal(const ModelConfig& from, const ModelConfig& to, const Tensors& causal)
      : from_(from), to_(to), causal_(causal) {}

  Tensors Convert() const {
    Tensors tensors;
    at::Tensor embed = causal_.at(names::Weight(names::kEmbed));
    tensors[names::Weight(names::kHead)] =
        from_.tie_head ? embed : causal_.at(names::Weight(names::kHead));
    tensors[names::Bias(names::kHead)] = from_.tie_head
                                             ? at::zeros({from_.vocab})
                                             : causal_.at(names::Bias(names::kHead));
    if (from_.embed_scale) {
      embed = embed * std::sqrt(static_cast<double>(from_.d_model));
    }
    tensors[names::Weight(names::kEmbed)] = embed;
    for (const auto& name : {names::Weight(names::kNorm), names::Bias(names::kNorm)}) {
      tensors[name] = causal_.at(name);
    }
    for (int64_t i = 0; i < from_.layers; ++i) ConvertLayer(i, tensors);
    if (to_.projection == Projection::kShared) {
      for (const auto& [part, name] : {std::pair(names::kKey, names::kMemoryKey),
                                       std::pair(names::kValue, names::kMemoryValue)}) {
        at::Tensor sum = at::zeros({from_.d_model, from_.d_model});
        for (int64_t i = 0; i < from_.layers; ++i) sum = sum + Weight(i, part);
        tensors[names::Weight(name)] = sum / static_cast<double>(from_.layers);
      }
    }
    return tensors;
  }

 private:
  at::Tensor Weight(int64_t layer, const char* part) const {
    return causal_.at(names::Weight(names::Layer(layer, part)));
  }
  at::Tensor Bias(int64_t layer, const char* part) const {
    return causal_.at(names::Bias(names::Layer(layer, part)));
  }

  void ConvertLayer(int64_t i, Tensors& tensors) const {
    const auto set = [&](const char* part, const at::Tensor& weight,
                         const at::Tensor& bias) {
      tensors[names::Weight(names::Layer(i, part))] = weight;
      if (bias.defined()) tensors[names::Bias(names::Layer(i, part))] = bias;
    };
    for (const char* part :
         {names::kAttnNorm, names::kFfNorm, names::kFfIn, names::kFfOut}) {
      set(part, Weight(i, part), Bias(i, part));
    }
    set(names::kQuery, Weight(i, names::kQuery), {});
    const at::Tensor output = Weight(i, names::kOutput);
    at::Tensor output_bias = Bias(i, names::kOutput);
    const at::Tensor value_bias = Bias(i, names::kValue);
    if (to_.projection == Projection::kShared) {
      output_bias = output_bias + output.mv(value_bias);
    } else {
      set(names::kKey, Weight(i, names::kKey), {});
      set(names::kValue, Weight(i, names::kValue), value_bias);
    }
    set(names::kOutput, output, output_bias);
    ConvertPositions(i, tensors);
  }

  void ConvertPositions(int64_t i, Tensors& tensors) const {
    const int64_t heads = to_.heads, width = to_.head_width(), rows = to_.positions;
    const at::Tensor query_bias = Bias(i, names::kQuery).view({heads, width});
    at::Tensor u = query_bias;
    at::Tensor keys = at::zeros({rows, heads, width}),
               biases = at::zeros({rows, heads});
    if (from_.position_kind == PositionKind::kAlibi) {
      const std::vector<double> slopes = AlibiSlopes(heads);
      const double root = std::sqrt(static_cast<double>(width));
      for (int64_t n = 1; n <= rows; ++n) {
        for (int64_t h = 0; h < heads; ++h) {
          biases[rows - n][h] = -slopes[h] * static_cast<double>(n) * root;
        }
      }
    } else if (from_.position_kind == PositionKind::kRelative) {
      const auto table = [&](const char* part) {
        return causal_.at(names::Layer(i, part));
      };
      u = u + table(names::kQueryBias);
      // Distance 0 is row P - 1 of a causal table, and would be row P of ours.
      const int64_t count = std::min(rows, from_.positions - 1);
      const int64_t first = from_.positions - 1 - count;
      const at::Tensor known = table(names::kRelativeKey).narrow(0, first, count);
      keys.narrow(0, rows - count, count).copy_(known);
      biases.narrow(0, rows - count, count)
          .copy_(table(names::kRelativeBias).narrow(0, first, count) +
                 (known * query_bias).sum(-1));
    }
    tensors[names::Layer(i, names::kQueryBias)] = u;
    tensors[names::Layer(i, names::kRelativeKey)] = keys;
    tensors[names::Layer(i, names::kRelativeBias)] = biases;
  }

  const ModelConfig& from_;
  const ModelConfig& to_;
  const Tensors& causal_;
};

// The tokens of a tokenizer, without its treatment of unknown characters.
std::string TokensOf(const Tokenizer& tokenizer) {
  const auto refusing = WithUnknownCharacters(tokenizer, UnknownCharacters::kRefuse);
  return (refusing != nullptr ? *refusing : tokenizer).ToJson();
}

absl::Status NoStart(const std::string& from, const std::vector<std::string>& faults) {
  return absl::InvalidArgumentError(
      StrCat("train.from: ", Quoted(from),
             " cannot be the start of this model: ", StrJoin(faults, "; ")));
}

}  // namespace

absl::Status StartFrom(const std::string& from, const Task& task,
                       const ModelConfig& config, Model& model) {
  c10::AutoGradMode no_graph(false);
  absl::StatusOr<LoadedModel> read = LoadCheckpoint(from);
  if (!read.ok()) return Annotated(read.status(), "train.from");
  const LoadedModel loaded = *std::move(read);
  if (!loaded.config) {
    return NoStart(from, {"it is a " + loaded.architecture + " of another project"});
  }
  if (loaded.tokenizer != nullptr && task.tokenizer() != nullptr &&
      TokensOf(*loaded.tokenizer) != TokensOf(*task.tokenizer())) {
    return NoStart(from, {"its tokens are not those of data.text"});
  }
  Tensors tensors = TensorsOf(*loaded.model);
  const Attention* attention = FirstBlock<Attention>(loaded.description);
  const bool causal = model.description().memory && !loaded.description.memory &&
                      !loaded.description.whole_sequences && attention != nullptr &&
                      attention->carries == Attention::Carries::kKeys;
  if (causal) {
    const std::vector<std::string> faults = Differences(*loaded.config, config);
    if (!faults.empty()) return NoStart(from, faults);
    tensors = FromCausal(*loaded.config, config, tensors).Convert();
  }
  std::vector<std::string> faults;
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      if (!causal) faults.push_back(StrCat("it has no ", name));
    } else if (found->second.sizes() != weight.sizes()) {
      faults.push_back(StrCat(name, " has another shape"));
    }
  });
  if (loaded.architecture != config.architecture && !causal) {
    faults = {StrCat("it is of architecture ", loaded.architecture)};
  }
  if (!faults.empty()) return NoStart(from, faults);
  model.Visit([&](const std::string& name, at::Tensor& weight) {
    const auto found = tensors.find(name);
    if (found != tensors.end()) weight.copy_(found->second);
  });
  return absl::OkStatus();
}

}  // namespace mnemon
