// SPDX-License-Identifier: MIT
#include "model/registry/registry.h"

#include <array>
#include <new>
#include <utility>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/arch/causal.h"
#include "model/arch/encoder.h"
#include "model/arch/fast_weights.h"
#include "model/arch/feedback.h"
#include "model/arch/step_decoder.h"
#include "model/arch/transformer_xl.h"
#include "model/default/default_decoder.h"
#include "model/default/default_predictor.h"
#include "model/sequence/device.h"

namespace mnemon {
namespace {

constexpr auto kArchitectures = std::to_array<ArchitectureEntry>({
    {.name = "feedback",
     .summary =
         "Feedback Transformer: every layer attends to one memory vector per token",
     .validate = ValidateFeedback,
     .make = MakeFeedback,
     .make_decoder = MakeFeedbackDecoder,
     .make_predictor = nullptr,
     .variants = FeedbackVariants},
    {.name = "fast_weights",
     .summary = "fast weights with DPFP features: a state of constant size",
     .validate = ValidateFastWeights,
     .make = MakeFastWeights,
     .make_decoder = MakeFastWeightsDecoder,
     .make_predictor = nullptr,
     .variants = FastWeightsVariants},
    {.name = "transformer_xl",
     .summary = "Transformer-XL: relative attention over a window of memory",
     .validate = ValidateTransformerXl,
     .make = MakeTransformerXl,
     .make_decoder = MakeTransformerXlDecoder,
     .make_predictor = nullptr,
     .variants = TransformerXlVariants},
    {.name = "causal",
     .summary = "plain causal transformer with a key and value cache",
     .validate = ValidateCausal,
     .make = MakeCausal,
     .make_decoder = MakeCausalDecoder,
     .make_predictor = nullptr,
     .variants = CausalVariants},
    {.name = "encoder",
     .summary = "encoder that classifies every position of a whole sequence",
     .validate = ValidateEncoder,
     .make = MakeEncoder,
     .make_decoder = nullptr,
     .make_predictor = MakeDefaultPredictor,
     .variants = EncoderVariants},
});

// feedback with one projection for all layers, as users type it.
constexpr std::string_view kFeedbackShared = "feedback_shared";

absl::Status UnknownArchitecture(std::string_view name,
                                 std::span<const std::string> known) {
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("unknown architecture '", name,
                          "'; known: ", StrJoin(known, ", "), DidYouMean(name, known)),
                   {.reason = "UNKNOWN_ARCHITECTURE", .field = "architecture"});
}

absl::Status WrongKind(const ArchitectureEntry& entry, std::string_view fault) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   StrCat("architecture ", entry.name, " ", fault),
                   {.reason = "MODEL_KIND", .field = "model"});
}

std::vector<std::string> KnownNames() {
  std::vector<std::string> names;
  for (const ArchitectureEntry& entry : kArchitectures) names.emplace_back(entry.name);
  return names;
}

}  // namespace

std::span<const ArchitectureEntry> Architectures() { return kArchitectures; }

absl::StatusOr<const ArchitectureEntry*> FindArchitecture(std::string_view name) {
  for (const ArchitectureEntry& entry : kArchitectures) {
    if (entry.name == name) return &entry;
  }
  return UnknownArchitecture(name, KnownNames());
}

absl::Status ValidateModel(const ModelConfig& config) {
  const absl::Status general = ValidateConfig(config);
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  const absl::Status own = entry->validate(config);
  if (general.ok()) return own;
  if (own.ok()) return general;
  const auto detail = GetErrorDetail(general);
  return InvalidField(detail ? detail->field : "",
                      StrCat(general.message(), "; ", own.message()));
}

absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config) {
  MNEMON_RETURN_IF_ERROR(ValidateModel(config));
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  try {
    return entry->make(config);
  } catch (const c10::Error&) {  // the tensor library's way of saying bad_alloc
  } catch (const std::bad_alloc&) {
  }
  return MakeError(absl::StatusCode::kResourceExhausted,
                   "not enough memory for the weights of this model",
                   {.reason = "OUT_OF_MEMORY"});
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const Model& model,
                                                     const DecoderOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(model.config().architecture));
  if (!entry->autoregressive()) {
    return WrongKind(*entry, "takes whole sequences, not token by token");
  }
  if (entry->make_decoder == nullptr || !DeviceOf(model).is_cpu()) {
    if (options.format == WeightFormat::kFp32) return MakeDefaultDecoder(model);
    return InvalidField("precision",
                        "--precision bf16 is for the kernels of the CPU: use fp32");
  }
  MNEMON_ASSIGN_OR_RETURN(const CpuOperations* operations,
                          FindCpuOperations(options.target));
  static ThreadPool alone(1);  // without state: any number of decoders may share it
  // Not const, for visitors that replace tensors; this one only looks.
  const TensorViews views = ViewWeights(const_cast<Model&>(model));
  try {
    return entry->make_decoder(model.config(), model.carry_spec(), views,
                               {.format = options.format,
                                .operations = operations,
                                .pool = options.pool ? options.pool : &alone});
  } catch (const std::bad_alloc&) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "not enough memory to pack the weights of this model",
                     {.reason = "OUT_OF_MEMORY"});
  }
}

absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(const Model& model) {
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(model.config().architecture));
  if (entry->make_predictor != nullptr) return entry->make_predictor(model);
  return WrongKind(*entry, "is autoregressive: it generates, it does not predict");
}

absl::Status SetArchitecture(ModelConfig& config, std::string_view name) {
  if (name == kFeedbackShared) {
    config.architecture = "feedback";
    config.projection = Projection::kShared;
    return absl::OkStatus();
  }
  if (!FindArchitecture(name).ok()) {
    std::vector<std::string> known = KnownNames();
    known.emplace_back(kFeedbackShared);
    return UnknownArchitecture(name, known);
  }
  config.architecture = name;
  return absl::OkStatus();
}

}  // namespace mnemon
