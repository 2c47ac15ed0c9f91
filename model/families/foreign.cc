// SPDX-License-Identifier: MIT
#include "model/families/foreign.h"

#include <utility>

#include "base/error.h"
#include "base/process/nearest_name.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/families/foreign_table.h"

namespace mnemon {

std::span<const ForeignFamily> ForeignFamilies() {
#define MNEMON_MAKE_FAMILY(name) name(),
  static const ForeignFamily kFamilies[] = {
      MNEMON_FOREIGN_FAMILIES(MNEMON_MAKE_FAMILY)};
#undef MNEMON_MAKE_FAMILY
  return kFamilies;
}

int64_t ReadLayers(ForeignConfig& config, std::string_view key) {
  constexpr int64_t kMost = 1024;  // as CheckDescription
  const int64_t layers = config.Integer(key);
  if (layers <= kMost) return layers;
  config.Refuse(key, StrCat("up to ", kMost));
  return 0;
}

Activation ReadActivation(ForeignConfig& config, std::string_view key,
                          std::string otherwise) {
  const std::string name = config.Text(key, std::move(otherwise));
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "relu") return Activation::kRelu;
  config.Refuse(key, "silu, gelu, gelu_new, gelu_pytorch_tanh, relu");
  return Activation::kSilu;
}

namespace {

absl::Status CheckPlain(ForeignConfig& config) {
  constexpr char kKey[] = "quantization_config";
  if (!config.Has(kKey)) return absl::OkStatus();
  const std::string method =
      config.Section(kKey).Text("quant_method", "another method");
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      StrCat("config.json: ", kKey, ": weights quantised by ", Quoted(method),
             " are not supported: take the model that was quantised, or a "
             "GGUF file of it"),
      {.reason = "UNSUPPORTED_MODEL", .field = kKey});
}

}  // namespace

absl::StatusOr<ForeignModel> ReadForeignModel(std::string_view json) {
  MNEMON_ASSIGN_OR_RETURN(ForeignConfig config, ForeignConfig::Parse(json));
  const std::string type = config.Text("model_type");
  std::vector<std::string> known;
  for (const ForeignFamily& family : ForeignFamilies()) {
    if (family.model_type == type) {
      MNEMON_RETURN_IF_ERROR(CheckPlain(config));
      ForeignModel model = family.read(config);
      MNEMON_RETURN_IF_ERROR(config.status());
      MNEMON_RETURN_IF_ERROR(CheckDescription(model.description));
      model.architecture = type;
      return model;
    }
    known.emplace_back(family.model_type);
  }
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("config.json: model_type ", Quoted(type),
                          " is not supported; supported: ", StrJoin(known, ", "),
                          DidYouMean(type, known)),
                   {.reason = "UNSUPPORTED_MODEL", .field = "model_type"});
}

}  // namespace mnemon
