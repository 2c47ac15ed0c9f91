// SPDX-License-Identifier: MIT
#include "model/io/gguf_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/gguf_architectures.h"
#include "model/io/gguf_keys.h"
#include "model/io/gguf_rope.h"

namespace mnemon {
namespace {

using nlohmann::json;

constexpr char kRopeFactors[] = "rope_freqs.weight";
constexpr int64_t kMostGgufLayers = 1024;  // same as in CheckDescription

std::optional<std::string_view> FindName(std::span<const Renamed> names,
                                         std::string_view from) {
  const auto found = std::ranges::find(names, from, &Renamed::from);
  if (found == names.end()) return std::nullopt;
  return found->to;
}

// Reads one file.
class GgufTranslation {
 public:
  GgufTranslation(const Gguf& file, std::string_view image,
                  const GgufArchitecture& architecture)
      : file_(file),
        image_(image),
        architecture_(architecture),
        keys_(file, std::string(architecture.name)),
        config_({{"architectures", json::array({architecture.library_class})},
                 {"model_type", architecture.model_type}}) {}

  absl::StatusOr<GgufModel> Make() {
    if (architecture_.learned_positions) {
      ReadGpt2();
    } else {
      ReadLlamaLike();
    }
    ReadSpecialTokens();
    GgufModel model;
    for (const GgufTensor& tensor : file_.tensors) {
      // These are read with the settings.
      const bool factors = tensor.name == kRopeFactors && width_ > 0;
      if (!factors) model.tensors.push_back(Translate(tensor));
    }
    MNEMON_RETURN_IF_ERROR(keys_.status());
    model.config_json = config_.dump(2) + "\n";
    model.generation_config_json = generation_.dump(2) + "\n";
    return model;
  }

 private:
  bool HasTensor(std::string_view name) const {
    return file_.FindTensor(name) != nullptr;
  }
  int64_t Layers() {
    layers_ = keys_.Integer("block_count");
    if (layers_ > kMostGgufLayers) {
      keys_.Refuse("block_count",
                   StrCat("is ", layers_, ", supported: up to ", kMostGgufLayers));
      layers_ = 0;
    }
    return layers_;
  }
  // Rows of the embedding.
  int64_t Vocab() {
    const GgufTensor* const embedding = file_.FindTensor("token_embd.weight");
    if (embedding == nullptr) {
      keys_.Fault("tensor 'token_embd.weight' is missing");
      return 0;
    }
    keys_.OnlyInteger("vocab_size", embedding->shape[0]);
    return embedding->shape[0];
  }

  void ReadLlamaLike();
  void ReadGpt2();
  void ReadGemmaWindows();
  void ReadSpecialTokens();
  json ReadScaling(double theta);
  json ReadFactors(const GgufTensor& tensor, double theta);
  GgufSource Translate(const GgufTensor& tensor);
  // Name in directories, without its suffix; none: unknown.
  std::optional<std::string> NameOf(std::string_view base) const;

  const Gguf& file_;
  const std::string_view image_;
  const GgufArchitecture& architecture_;
  GgufKeys keys_;
  json config_, generation_ = {{"_from_model_config", true}};
  int64_t layers_ = 0, heads_ = 0, groups_ = 0, width_ = 0;
};

json GgufTranslation::ReadFactors(const GgufTensor& tensor, double theta) {
  const std::string name = StrCat("tensor ", Quoted(tensor.name));
  if (tensor.format->name != "F32" || tensor.shape.size() != 1 ||
      tensor.shape[0] != width_ / 2) {
    keys_.Fault(StrCat(name, " is not F32 [", width_ / 2, "]"));
    return nullptr;
  }
  std::vector<float> factors(static_cast<size_t>(tensor.shape[0]));
  tensor.format->decode(image_.data() + tensor.begin, tensor.shape[0], factors.data());
  const auto found = FindLlama3Factors(factors, theta, width_);
  if (!found) {
    keys_.Fault(StrCat(name,
                       " has factors that are not those of llama3 with "
                       "low_freq_factor 1 and high_freq_factor 4"));
    return nullptr;
  }
  return {{"rope_type", "llama3"},
          {"factor", found->factor},
          {"low_freq_factor", Llama3Factors::kLow},
          {"high_freq_factor", Llama3Factors::kHigh},
          {"original_max_position_embeddings", found->context}};
}

// rope_scaling; null: none.
json GgufTranslation::ReadScaling(double theta) {
  const double old = keys_.Number("rope.scale_linear", 1.0);  // in older files
  const std::string type =
      keys_.Text("rope.scaling.type", old == 1 ? "none" : "linear");
  const double factor = keys_.Number("rope.scaling.factor", old);
  const int64_t context = keys_.Integer("rope.scaling.original_context_length", 0);
  keys_.Ignore("rope.scaling.finetuned");
  keys_.OnlyNumber("rope.scaling.attn_factor", 1);
  const GgufTensor* const factors = file_.FindTensor(kRopeFactors);
  if (factors != nullptr && type == "none") return ReadFactors(*factors, theta);
  if (factors != nullptr) {
    keys_.Fault(StrCat("tensor ", Quoted(kRopeFactors), " beside rope.scaling.type ",
                       Quoted(type), " is not supported"));
  }
  if (type == "none" || (type == "linear" && factor == 1)) return nullptr;
  if (factor < 1) keys_.Refuse("rope.scaling.factor", "is below 1");
  if (type == "linear") return {{"rope_type", type}, {"factor", factor}};
  if (type != "yarn") {
    keys_.Refuse("rope.scaling.type",
                 StrCat("is ", Quoted(type), ", supported: none, linear, yarn"));
    return nullptr;
  }
  if (context == 0) {
    keys_.Refuse("rope.scaling.original_context_length", "is missing");
  }
  keys_.OnlyNumber("rope.scaling.yarn_ext_factor", 1);
  keys_.OnlyNumber("rope.scaling.yarn_attn_factor", 1);
  return {{"rope_type", type},
          {"factor", factor},
          {"original_max_position_embeddings", context},
          {"beta_fast", keys_.Number("rope.scaling.yarn_beta_fast", 32.0)},
          {"beta_slow", keys_.Number("rope.scaling.yarn_beta_slow", 1.0)}};
}

void GgufTranslation::ReadLlamaLike() {
  const int64_t width = keys_.Integer("embedding_length");
  heads_ = keys_.Integer("attention.head_count");
  groups_ = keys_.Integer("attention.head_count_kv", heads_);
  if (heads_ < 1 || groups_ < 1) {
    keys_.Refuse("attention.head_count", "and head_count_kv must be 1 and more");
    return;
  }
  width_ = keys_.Integer("attention.key_length", width / heads_);
  keys_.OnlyInteger("attention.value_length", width_);
  keys_.OnlyInteger("rope.dimension_count", width_);
  keys_.OnlyInteger("expert_count", 0);
  keys_.OnlyInteger("expert_used_count", 0);
  const std::optional<double> usual =
      architecture_.own_windows ? std::nullopt : std::optional(1e4);
  const double theta = keys_.Number("rope.freq_base", usual);
  config_.update({{"vocab_size", Vocab()},
                  {"hidden_size", width},
                  {"intermediate_size", keys_.Integer("feed_forward_length")},
                  {"num_hidden_layers", Layers()},
                  {"num_attention_heads", heads_},
                  {"num_key_value_heads", groups_},
                  {"head_dim", width_},
                  {"max_position_embeddings", keys_.Integer("context_length")},
                  {"rms_norm_eps", keys_.Number("attention.layer_norm_rms_epsilon")},
                  {"rope_theta", theta},
                  {"rope_scaling", ReadScaling(theta)},
                  {"tie_word_embeddings", !HasTensor("output.weight")}});
  if (!architecture_.always_biased) {
    config_["attention_bias"] = HasTensor("blk.0.attn_q.bias");
  }
  if (architecture_.feed_biases) {
    config_["mlp_bias"] = HasTensor("blk.0.ffn_gate.bias");
  }
  if (architecture_.may_slide) config_["use_sliding_window"] = false;
  if (architecture_.own_windows) {
    config_["hidden_activation"] = "gelu_pytorch_tanh";
    ReadGemmaWindows();
  } else {
    config_["hidden_act"] = "silu";
  }
  if (architecture_.turned) {
    constexpr char kTurned[] = "Meta AI original pth";
    const std::string layout = keys_.Text("tensor_data_layout", kTurned);
    if (layout != kTurned) {
      keys_.Refuse("tensor_data_layout",
                   StrCat("is ", Quoted(layout), ", supported: ", kTurned));
    }
  }
}

void GgufTranslation::ReadGemmaWindows() {
  const int64_t hidden = config_["hidden_size"];
  // llama.cpp identifies the model of 27 billion parameters, whose scores are scaled
  // differently, by its number of layers; other files may state the scale.
  constexpr int64_t kLargest = 62;
  double scalar = static_cast<double>(layers_ == kLargest ? hidden / heads_ : width_);
  if (keys_.Has("attention.scale")) {
    const double scale = keys_.Number("attention.scale");
    scalar = 1 / (scale * scale);
    // The scale was a float32.
    const double whole = std::round(scalar);
    if (std::abs(scalar - whole) < 1e-5 * whole) scalar = whole;
  }
  if (!(scalar > 0) || !std::isfinite(scalar)) {
    keys_.Refuse("attention.scale", "is not above 0");
    return;
  }
  config_["query_pre_attn_scalar"] = scalar;
  config_["rope_local_base_freq"] = keys_.Number("rope.freq_base_swa", 1e4);
  for (const char* const cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (keys_.Has(cap)) config_[cap] = keys_.Number(cap);
  }
  // Without a window every layer sees all.
  const int64_t window = keys_.Integer("attention.sliding_window", 0);
  constexpr char kPattern[] = "attention.sliding_window_pattern";
  std::vector<int64_t> slides;
  int64_t every = 6;
  if (file_.Find<int64_t>(StrCat(architecture_.name, ".", kPattern)) != nullptr) {
    every = keys_.Integer(kPattern);
  } else {
    slides = keys_.Integers(kPattern);
  }
  if (!slides.empty() && static_cast<int64_t>(slides.size()) != layers_) {
    keys_.Refuse(kPattern, "has not one for each layer");
    return;
  }
  if (window > 0) config_["sliding_window"] = window;
  json types = json::array();
  for (int64_t i = 0; i < layers_; ++i) {
    const bool inner = slides.empty() ? every > 0 && (i + 1) % every != 0
                                      : slides[static_cast<size_t>(i)] != 0;
    types.push_back(inner && window > 0 ? "sliding_attention" : "full_attention");
  }
  config_["layer_types"] = std::move(types);
}

void GgufTranslation::ReadGpt2() {
  heads_ = keys_.Integer("attention.head_count");
  groups_ = heads_;
  keys_.OnlyInteger("attention.head_count_kv", heads_);
  config_.update({{"vocab_size", Vocab()},
                  {"n_embd", keys_.Integer("embedding_length")},
                  {"n_inner", keys_.Integer("feed_forward_length")},
                  {"n_layer", Layers()},
                  {"n_head", heads_},
                  {"n_positions", keys_.Integer("context_length")},
                  {"activation_function", "gelu_new"},
                  {"layer_norm_epsilon", keys_.Number("attention.layer_norm_epsilon")},
                  {"tie_word_embeddings", !HasTensor("output.weight")}});
}

void GgufTranslation::ReadSpecialTokens() {
  const int64_t vocab = config_.value("vocab_size", int64_t{0});
  const auto id = [&](std::string_view name) -> std::optional<int64_t> {
    const auto* const found =
        file_.Find<int64_t>(StrCat("tokenizer.ggml.", name, "_token_id"));
    if (found == nullptr || *found < 0 || *found >= vocab) return std::nullopt;
    return *found;
  };
  for (const auto& [key, name] :
       {std::pair("bos_token_id", "bos"), std::pair("pad_token_id", "padding")}) {
    if (const auto found = id(name)) config_[key] = generation_[key] = *found;
  }
  json ends = json::array();
  for (const char* const name : {"eos", "eot", "eom"}) {
    const auto found = id(name);
    if (found && std::ranges::count(ends, json(*found)) == 0) ends.push_back(*found);
  }
  if (ends.empty()) return;
  config_["eos_token_id"] = generation_["eos_token_id"] =
      ends.size() == 1 ? ends[0] : ends;
}

std::optional<std::string> GgufTranslation::NameOf(std::string_view base) const {
  constexpr std::string_view kBlock = "blk.";
  if (!base.starts_with(kBlock)) {
    const auto top = FindName(architecture_.top, base);
    if (!top) return std::nullopt;
    return std::string(*top);
  }
  base.remove_prefix(kBlock.size());
  const std::string_view digits = base.substr(0, base.find('.'));
  int64_t layer = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  const bool number = error == std::errc() && end == digits.data() + digits.size() &&
                      StrCat(layer) == digits && layer < layers_;
  if (!number || digits.size() == base.size()) return std::nullopt;
  base.remove_prefix(digits.size() + 1);
  auto inner = FindName(architecture_.layer, base);
  if (!inner) inner = FindName(architecture_.norms, base);
  if (!inner) return std::nullopt;
  return StrCat(architecture_.layers, layer, ".", *inner);
}

GgufSource GgufTranslation::Translate(const GgufTensor& tensor) {
  GgufSource source = {.name = tensor.name, .tensor = tensor};
  const std::string shown = StrCat("tensor ", Quoted(tensor.name));
  const std::string_view name = tensor.name;
  const size_t dot = std::min(name.rfind('.'), name.size());
  const std::string_view base = name.substr(0, dot), suffix = name.substr(dot);
  const auto foreign = NameOf(base);
  if (!foreign || (suffix != ".weight" && suffix != ".bias")) {
    keys_.Fault(StrCat(shown, " is not known of architecture ", architecture_.name));
    return source;
  }
  source.name = StrCat(*foreign, suffix);
  const bool matrix = tensor.shape.size() == 2;
  if (architecture_.own_windows && base.ends_with("norm")) source.shift = -1;
  source.transposed = architecture_.learned_positions && matrix &&
                      foreign->find(".c_") != foreign->npos;
  const bool query = base.ends_with(".attn_q"), key = base.ends_with(".attn_k");
  if (!architecture_.turned || !(query || key)) return source;
  source.heads = query ? heads_ : groups_;
  const bool whole = source.heads > 0 && tensor.shape.size() <= 2 &&
                     tensor.shape[0] % (2 * source.heads) == 0 &&
                     (matrix || tensor.format->plain());
  if (!whole) {
    keys_.Fault(StrCat(shown, " has ", tensor.shape[0], " rows of ",
                       tensor.format->name, ", which are no halves of ", source.heads,
                       " heads"));
    source.heads = 0;
  }
  return source;
}

}  // namespace

absl::StatusOr<GgufModel> ReadGgufModel(const Gguf& file, std::string_view image) {
  const auto unsupported = [](std::string message, std::string field) {
    return MakeError(absl::StatusCode::kUnimplemented, StrCat("gguf: ", message),
                     {.reason = "UNSUPPORTED_MODEL", .field = std::move(field)});
  };
  const auto text = [&](const char* key) {
    const auto* const found = file.Find<std::string>(key);
    return found == nullptr ? std::string() : *found;
  };
  if (const auto* parts = file.Find<int64_t>("split.count"); parts && *parts > 1) {
    return unsupported(StrCat("key 'split.count' is ", *parts,
                              ": a file that was split is not supported; join its "
                              "parts, by llama-gguf-split --merge"),
                       "split.count");
  }
  const std::string type = text("general.type");
  if (!type.empty() && type != "model") {
    return unsupported(
        StrCat("key 'general.type' is ", Quoted(type), ", supported: model"),
        "general.type");
  }
  const std::string name = text("general.architecture");
  std::vector<std::string_view> known;
  for (const GgufArchitecture& architecture : GgufArchitectures()) {
    if (architecture.name == name) {
      return GgufTranslation(file, image, architecture).Make();
    }
    known.push_back(architecture.name);
  }
  return unsupported(StrCat("key 'general.architecture' is ", Quoted(name),
                            ", supported: ", StrJoin(known, ", ")),
                     "general.architecture");
}

}  // namespace mnemon
