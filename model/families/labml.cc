// SPDX-License-Identifier: MIT
#include "model/families/labml.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/files/json.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/tensor_names.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

using ShapeOf = std::function<const std::vector<int64_t>*(std::string_view)>;

constexpr char kSinusoidTable[] = "src_embed.positional_encodings";
constexpr char kEncoderSinusoidTable[] = "pos_encoding.pe";

enum class Foreign {
  kFeedback,
  kFeedbackKv,
  kFastWeights,
  kTransformerXl,
  kTransformer,
  kEncoder
};

struct ForeignName {
  std::string_view name;
  Foreign value;
};
constexpr ForeignName kForeign[] = {{"feedback", Foreign::kFeedback},
                                    {"feedback_kv", Foreign::kFeedbackKv},
                                    {"fast_weights", Foreign::kFastWeights},
                                    {"transformer_xl", Foreign::kTransformerXl},
                                    {"transformer", Foreign::kTransformer},
                                    {"encoder", Foreign::kEncoder}};

absl::Status ConfigFault(std::string_view fault) {
  return absl::InvalidArgumentError(StrCat("labml config: ", fault));
}

absl::StatusOr<Foreign> ReadArchitecture(const nlohmann::json& json) {
  const auto found = json.find("architecture");
  std::vector<std::string_view> names;
  for (const auto& [name, value] : kForeign) {
    if (found != json.end() && *found == std::string(name)) return value;
    names.push_back(name);
  }
  const std::string given = found == json.end()  ? "is missing"
                            : found->is_string() ? Quoted(found->get<std::string>())
                                                 : "is not a string";
  return ConfigFault(
      StrCat("architecture ", given, "; import takes one of ", StrJoin(names, ", ")));
}

// Reads the sizes; a fault names every bad key.
class SizeReader {
 public:
  explicit SizeReader(const nlohmann::json& json) : json_(json) {}

  void Required(const char* key, int64_t& field) {
    if (!json_.contains(key)) faults_.push_back(StrCat("missing key ", key));
    Optional(key, field);
  }
  // True when the key is there.
  bool Optional(const char* key, int64_t& field) {
    const auto value = json_.find(key);
    if (value == json_.end()) return false;
    if (value->is_number_unsigned() && value->get<uint64_t>() <= INT64_MAX) {
      field = value->get<int64_t>();
    } else {
      faults_.push_back(StrCat(key, " must be an integer of at least 0"));
    }
    return true;
  }
  void Optional(const char* key, double& field) {
    const auto value = json_.find(key);
    if (value == json_.end()) return;
    if (value->is_number()) {
      field = value->get<double>();
    } else {
      faults_.push_back(StrCat(key, " must be a number"));
    }
  }
  absl::Status status() const {
    return faults_.empty() ? absl::OkStatus() : ConfigFault(StrJoin(faults_, "; "));
  }

 private:
  const nlohmann::json& json_;
  std::vector<std::string> faults_;
};

std::string_view AttentionName(Foreign foreign) {
  return foreign == Foreign::kTransformerXl || foreign == Foreign::kTransformer
             ? "self_attn"
             : "attn";
}

std::string ForeignLayer(Foreign foreign, int64_t i) {
  const char* stack = foreign == Foreign::kTransformer ? "encoder" : "transformer";
  return StrCat(stack, ".layers.", i, ".");
}

// The sinusoids that a foreign model keeps as a buffer; null: it has none.
const char* SinusoidTable(Foreign foreign) {
  if (foreign == Foreign::kTransformer) return kSinusoidTable;
  return foreign == Foreign::kEncoder ? kEncoderSinusoidTable : nullptr;
}

std::vector<int64_t> SinusoidShape(Foreign foreign, const ModelConfig& config) {
  if (foreign == Foreign::kEncoder) return {1, config.positions, config.d_model};
  return {config.positions, 1, config.d_model};
}

// Rows for the past according to the weights; nullopt if no table shows them.
std::optional<int64_t> RowsInFile(Foreign foreign, const ShapeOf& shape_of) {
  if (foreign == Foreign::kFastWeights) return std::nullopt;
  const char* sinusoid = SinusoidTable(foreign);
  const std::string name = sinusoid != nullptr
                               ? sinusoid
                               : StrCat(ForeignLayer(foreign, 0),
                                        AttentionName(foreign), ".key_pos_embeddings");
  const std::vector<int64_t>* shape = shape_of(name);
  const size_t dimension = foreign == Foreign::kEncoder ? 1 : 0;
  if (shape == nullptr || shape->size() <= dimension) return std::nullopt;
  const int64_t rows = (*shape)[dimension];
  return foreign == Foreign::kTransformerXl ? rows / 2 : rows;
}

absl::StatusOr<Mask> ReadMask(const nlohmann::json& json) {
  const auto mask = json.find("mask");
  if (mask == json.end() || *mask == "none") return Mask::kNone;
  if (*mask == "causal") return Mask::kCausal;
  return ConfigFault("mask must be \"causal\", or absent: every position sees all");
}

absl::StatusOr<PositionBias> ReadPositionBias(const nlohmann::json& json,
                                              Foreign foreign,
                                              const ShapeOf& shape_of) {
  const auto form = json.find("seed_form");
  if (form == json.end()) {
    const bool has_bias = shape_of("transformer.layers.0.attn.key_pos_bias") != nullptr;
    return has_bias || foreign == Foreign::kFeedbackKv ? PositionBias::kFree
                                                       : PositionBias::kTied;
  }
  if (*form == "002") return PositionBias::kFree;
  if (*form == "000" && foreign == Foreign::kFeedback) return PositionBias::kTied;
  return ConfigFault(foreign == Foreign::kFeedback
                         ? "seed_form must be \"000\" or \"002\""
                         : "seed_form must be \"002\"");
}

absl::StatusOr<ModelConfig> ReadConfig(const nlohmann::json& json, Foreign foreign,
                                       const ShapeOf& shape_of) {
  ModelConfig config;
  SizeReader reader(json);
  reader.Required("d_model", config.d_model);
  reader.Required("heads", config.heads);
  reader.Required("layers", config.layers);
  reader.Required("ff", config.d_ff);
  reader.Required("vocab", config.vocab);
  reader.Optional("dropout", config.dropout);
  // Neither follows from the weights.
  if (foreign == Foreign::kFastWeights) reader.Required("nu", config.nu);
  if (foreign == Foreign::kTransformerXl) reader.Required("mem_len", config.mem_len);
  if (foreign != Foreign::kFastWeights &&
      !reader.Optional("positions", config.positions)) {
    config.positions = RowsInFile(foreign, shape_of).value_or(config.positions);
  }
  MNEMON_RETURN_IF_ERROR(reader.status());
  switch (foreign) {
    case Foreign::kFeedback:
    case Foreign::kFeedbackKv: {
      config.architecture = "feedback";
      config.position_kind = PositionKind::kRelative;
      if (foreign == Foreign::kFeedbackKv) config.projection = Projection::kShared;
      MNEMON_ASSIGN_OR_RETURN(config.position_bias,
                              ReadPositionBias(json, foreign, shape_of));
      break;
    }
    case Foreign::kFastWeights:
      config.architecture = "fast_weights";
      break;
    case Foreign::kTransformerXl:
      config.architecture = "transformer_xl";
      config.position_kind = PositionKind::kRelative;
      config.window = Window::kSegment;
      break;
    case Foreign::kTransformer:
      config.architecture = "causal";
      config.position_kind = PositionKind::kSinusoidal;
      config.embed_scale = true;
      break;
    case Foreign::kEncoder: {
      config.architecture = "encoder";
      config.position_kind = PositionKind::kSinusoidal;
      config.norm_logits = true;
      MNEMON_ASSIGN_OR_RETURN(config.mask, ReadMask(json));
      break;
    }
  }
  MNEMON_RETURN_IF_ERROR(ValidateConfig(config));
  return config;
}

// The tensors of a foreign model, in the order of ours.
class NameTable {
 public:
  NameTable(Foreign foreign, const ModelConfig& config)
      : foreign_(foreign), c_(config) {
    if (foreign == Foreign::kEncoder) {
      AddEncoder();
      return;
    }
    const bool plain = foreign == Foreign::kTransformer;
    Add(plain ? "src_embed.linear.weight" : "src_embed.weight",
        names::Weight(names::kEmbed), {c_.vocab, c_.d_model});
    if (IsFeedback()) Add("transformer.weights", names::kMemoryMix, {c_.layers + 1});
    if (foreign == Foreign::kFeedbackKv) {
      Weight("transformer.key.linear", names::kMemoryKey, c_.d_model, c_.d_model);
      Weight("transformer.value.linear", names::kMemoryValue, c_.d_model, c_.d_model);
    }
    for (int64_t i = 0; i < c_.layers; ++i) AddLayer(i);
    Norm(plain ? "encoder.norm" : "transformer.norm", names::kNorm);
    Affine(plain ? "generator.projection" : "generator", names::kHead, c_.vocab,
           c_.d_model);
  }

  std::vector<RenamedTensor> Take() && { return std::move(all_); }

 private:
  bool IsFeedback() const {
    return foreign_ == Foreign::kFeedback || foreign_ == Foreign::kFeedbackKv;
  }
  void Add(std::string foreign, std::string ours, std::vector<int64_t> shape) {
    all_.push_back({std::move(foreign), std::move(ours), std::move(shape)});
  }
  void Weight(const std::string& foreign, const std::string& ours, int64_t out,
              int64_t in) {
    Add(names::Weight(foreign), names::Weight(ours), {out, in});
  }
  void Affine(const std::string& foreign, const std::string& ours, int64_t out,
              int64_t in) {
    Weight(foreign, ours, out, in);
    Add(names::Bias(foreign), names::Bias(ours), {out});
  }
  void Norm(const std::string& foreign, const std::string& ours, int64_t width) {
    Add(names::Weight(foreign), names::Weight(ours), {width});
    Add(names::Bias(foreign), names::Bias(ours), {width});
  }
  void Norm(const std::string& foreign, const std::string& ours) {
    Norm(foreign, ours, c_.d_model);
  }
  // Numbers are positions in an nn.Sequential.
  void AddEncoder() {
    const int64_t d = c_.d_model;
    Add("embedding.weight", names::Weight(names::kEmbed), {c_.vocab, d});
    for (int64_t i = 0; i < c_.layers; ++i) {
      const std::string block = StrCat("transformer.blocks.", i, ".");
      const auto ours = [i](const char* part) { return names::Layer(i, part); };
      Norm(block + "norm1", ours(names::kAttnNorm));
      Weight(block + "self_attn.w_q", ours(names::kQuery), d, d);
      Weight(block + "self_attn.w_k", ours(names::kKey), d, d);
      Weight(block + "self_attn.w_v", ours(names::kValue), d, d);
      Weight(block + "self_attn.w_o", ours(names::kOutput), d, d);
      Norm(block + "norm2", ours(names::kFfNorm));
      Affine(block + "ffn.0", ours(names::kFfIn), c_.d_ff, d);
      Affine(block + "ffn.3", ours(names::kFfOut), d, c_.d_ff);
    }
    Affine("classifier.0", names::kHeadIn, d, d);
    Norm("classifier.1", names::kNorm);
    Affine("classifier.4", names::kHead, c_.vocab, d);
    Norm("classifier.5", names::kLogitsNorm, c_.vocab);
  }
  void AddLayer(int64_t i) {
    const int64_t d = c_.d_model;
    const std::string layer = ForeignLayer(foreign_, i);
    const auto ours = [i](const char* part) { return names::Layer(i, part); };
    Norm(layer + "norm_self_attn", ours(names::kAttnNorm));
    AddAttention(StrCat(layer, AttentionName(foreign_), "."), ours);
    Norm(layer + "norm_ff", ours(names::kFfNorm));
    Affine(layer + "feed_forward.layer1", ours(names::kFfIn), c_.d_ff, d);
    Affine(layer + "feed_forward.layer2", ours(names::kFfOut), d, c_.d_ff);
  }
  template <class Ours>
  void AddAttention(const std::string& attn, const Ours& ours) {
    const int64_t d = c_.d_model;
    if (foreign_ == Foreign::kTransformer) {
      Affine(attn + "query.linear", ours(names::kQuery), d, d);
      Affine(attn + "key.linear", ours(names::kKey), d, d);
    } else {
      Weight(attn + "query.linear", ours(names::kQuery), d, d);
      if (foreign_ != Foreign::kFeedbackKv) {
        Weight(attn + "key.linear", ours(names::kKey), d, d);
      }
    }
    if (foreign_ == Foreign::kFastWeights) {
      Weight(attn + "value.linear", ours(names::kValue), d, d);
      Weight(attn + "interpolation_weight.0.linear", ours(names::kGate), c_.heads, d);
    } else if (foreign_ != Foreign::kFeedbackKv) {
      Affine(attn + "value.linear", ours(names::kValue), d, d);
    }
    if (IsFeedback() || foreign_ == Foreign::kTransformerXl) {
      const int64_t rows = IsFeedback() ? c_.positions : 2 * c_.positions;
      const int64_t width = c_.head_width();
      Add(attn + "key_pos_embeddings", ours(names::kRelativeKey),
          {rows, c_.heads, width});
      if (c_.position_bias == PositionBias::kFree) {
        Add(attn + "key_pos_bias", ours(names::kRelativeBias), {rows, c_.heads});
      }
      Add(attn + "query_pos_bias", ours(names::kQueryBias), {c_.heads, width});
    }
    Affine(attn + "output", ours(names::kOutput), d, d);
  }

  const Foreign foreign_;
  const ModelConfig& c_;
  std::vector<RenamedTensor> all_;
};

}  // namespace

absl::StatusOr<LabmlModel> ReadLabmlModel(std::string_view config_json,
                                          const ShapeOf& shape_of) {
  MNEMON_ASSIGN_OR_RETURN(const nlohmann::json json,
                          ParseJson(config_json, "labml config"));
  if (!json.is_object()) return ConfigFault("not a JSON object");
  MNEMON_ASSIGN_OR_RETURN(const Foreign foreign, ReadArchitecture(json));
  LabmlModel model;
  MNEMON_ASSIGN_OR_RETURN(model.config, ReadConfig(json, foreign, shape_of));
  model.tensors = NameTable(foreign, model.config).Take();
  if (const char* sinusoid = SinusoidTable(foreign)) {
    model.sinusoid = {sinusoid, SinusoidShape(foreign, model.config)};
  }
  return model;
}

}  // namespace mnemon
