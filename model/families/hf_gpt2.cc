// SPDX-License-Identifier: MIT
// model_type gpt2: layer norms before attention and before a plain feed-forward block,
// learned positions ("Language Models are Unsupervised Multitask Learners", Radford et
// al., 2019). Matrices of layers are stored transposed, those of queries, keys and
// values concatenated by columns.
#include <cmath>

#include "base/strings.h"
#include "model/families/foreign_table.h"

namespace mnemon {
namespace {

struct Part {
  std::string_view ours, theirs;
  int64_t index = 0, of = 1;  // of the concatenated parts
};
constexpr Part kParts[] = {{"attn.norm", "ln_1"},
                           {"attn.query", "attn.c_attn", 0, 3},
                           {"attn.key", "attn.c_attn", 1, 3},
                           {"attn.value", "attn.c_attn", 2, 3},
                           {"attn.output", "attn.c_proj"},
                           {"ff.norm", "ln_2"},
                           {"ff.in", "mlp.c_fc"},
                           {"ff.out", "mlp.c_proj"}};

// `name`: "attn.query.weight" of layer `layer`.
TensorRecipe RecipeOf(const TensorShape& tensor, std::string_view layer,
                      std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view suffix = name.substr(dot);
  TensorSource source;
  for (const Part& part : kParts) {
    if (part.ours != name.substr(0, dot)) continue;
    source.name = StrCat("transformer.h.", layer, ".", part.theirs, suffix);
    source.rows = tensor.shape[0];
    source.first = part.index * source.rows;
    source.shape = {part.of * source.rows};
    source.transposed = tensor.shape.size() == 2;
    if (source.transposed) source.shape.insert(source.shape.begin(), tensor.shape[1]);
  }
  return {tensor.name, tensor.shape, {source}};
}

ForeignModel Read(ForeignConfig& config) {
  ForeignModel model{.prefix = "transformer."};
  ModelDescription& description = model.description;
  description.width = config.Integer("n_embd");
  description.vocab = config.Integer("vocab_size");
  description.context = config.Integer("n_positions");
  description.embedding.positions = Embedding::Positions::kLearned;
  const Norm norm = {.kind = Norm::Kind::kLayer,
                     .eps = config.Number("layer_norm_epsilon", 1e-5)};
  description.head = {
      .norm = norm, .tied = config.Flag("tie_word_embeddings", true), .bias = false};
  const int64_t heads = config.Integer("n_head");
  if (heads < 1 || description.width % heads != 0) {
    config.Refuse("n_head", "a divisor of n_embd");
    return model;
  }
  Attention attention{
      .heads = heads,
      .groups = heads,
      .width = description.width / heads,
      .biases = {.query = true, .key = true, .value = true, .output = true}};
  const bool scaled = config.Flag("scale_attn_weights", true);
  const bool by_layer = config.Flag("scale_attn_by_inverse_layer_idx", false);
  const FeedForward feed{
      .hidden = config.Integer("n_inner", 4 * description.width),
      .activation = ReadActivation(config, "activation_function", "gelu_new")};
  config.Ignore({"attn_pdrop", "embd_pdrop", "n_ctx", "reorder_and_upcast_attn",
                 "resid_pdrop", "summary_activation", "summary_first_dropout",
                 "summary_proj_to_labels", "summary_type", "summary_use_proj"});
  const int64_t layers = ReadLayers(config, "n_layer");
  for (int64_t i = 0; i < layers; ++i) {
    double scale = scaled ? 1 / std::sqrt(static_cast<double>(attention.width)) : 1;
    if (by_layer) scale /= static_cast<double>(i + 1);
    if (!scaled || by_layer) attention.scale = scale;
    description.layers.push_back({{.name = "attn", .norm = norm, .block = attention},
                                  {.name = "ff", .norm = norm, .block = feed}});
  }
  if (!CheckDescription(description).ok()) return model;  // with the faults
  for (const TensorShape& tensor : TensorsOf(description)) {
    std::string_view name = tensor.name;
    if (name == "embed.weight") {
      model.tensors.push_back(TensorRecipe::As("transformer.wte.weight", tensor));
    } else if (name == "positions.weight") {
      model.tensors.push_back(TensorRecipe::As("transformer.wpe.weight", tensor));
    } else if (name == "head.weight") {
      model.tensors.push_back(TensorRecipe::As("lm_head.weight", tensor));
    } else if (name.starts_with("norm.")) {
      model.tensors.push_back(
          TensorRecipe::As(StrCat("transformer.ln_f", name.substr(4)), tensor));
    } else {
      name.remove_prefix(name.find('.') + 1);
      const size_t dot = name.find('.');
      model.tensors.push_back(
          RecipeOf(tensor, name.substr(0, dot), name.substr(dot + 1)));
    }
  }
  // Masks stored by older versions.
  model.ignored = {".attn.bias", ".attn.masked_bias"};
  if (description.head.tied) model.ignored.emplace_back("lm_head.weight");
  return model;
}

}  // namespace

ForeignFamily HfGpt2() {
  return {.model_type = "gpt2", .summary = "GPT-2", .read = Read};
}

}  // namespace mnemon
