// SPDX-License-Identifier: MIT
#include "model/registry/registry.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/kernels/cpu_operations.h"
#include "model/kernels/thread_pool.h"
#include "model/steps/causal_step.h"
#include "model/steps/encoder_predictor.h"
#include "model/steps/fast_weights_step.h"
#include "model/steps/feedback_step.h"
#include "model/steps/step_options.h"
#include "model/steps/transformer_xl_step.h"
#include "model/weights/tensor_names.h"

namespace mnemon {
namespace {

constexpr auto kArchitectures = std::to_array<ArchitectureEntry>({
    {.name = "feedback",
     .summary =
         "Feedback Transformer: every layer attends to one memory vector per token",
     .validate = ValidateFeedback,
     .tensors = FeedbackTensors,
     .make_decoder = MakeFeedbackDecoder,
     .make_predictor = nullptr,
     .variants = FeedbackVariants},
    {.name = "fast_weights",
     .summary = "fast weights with DPFP features: a state of constant size",
     .validate = ValidateFastWeights,
     .tensors = FastWeightsTensors,
     .make_decoder = MakeFastWeightsDecoder,
     .make_predictor = nullptr,
     .variants = FastWeightsVariants},
    {.name = "transformer_xl",
     .summary = "Transformer-XL: relative attention over a window of memory",
     .validate = ValidateTransformerXl,
     .tensors = TransformerXlTensors,
     .make_decoder = MakeTransformerXlDecoder,
     .make_predictor = nullptr,
     .variants = TransformerXlVariants},
    {.name = "causal",
     .summary = "plain causal transformer with a key and value cache",
     .validate = ValidateCausal,
     .tensors = CausalTensors,
     .make_decoder = MakeCausalDecoder,
     .make_predictor = nullptr,
     .variants = CausalVariants},
    {.name = "encoder",
     .summary = "encoder that classifies every position of a whole sequence",
     .validate = ValidateEncoder,
     .tensors = EncoderTensors,
     .make_decoder = nullptr,
     .make_predictor = MakeEncoderPredictor,
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

// In which the weights become what steps read.
absl::StatusOr<WeightFormat> FormatOf(const TensorViews& views,
                                      const DecoderOptions& options) {
  const bool int8 = std::ranges::any_of(
      views, [](const TensorView& view) { return view.int8 != nullptr; });
  const WeightFormat stored = int8 ? WeightFormat::kInt8 : WeightFormat::kFp32;
  const WeightFormat wanted = options.format.value_or(stored);
  if (!int8 || wanted == stored) return wanted;
  return InvalidField(
      "precision",
      StrCat("--precision ", NameOf(wanted), ": model.safetensors holds int8 weights: ",
             "use int8 or leave the flag out, or take the fp32 checkpoint that they "
             "were made of"));
}

// What `make` makes, a Decoder or Predictor, with the kernels that `options` name.
template <class Made, class Make>
absl::StatusOr<std::unique_ptr<Made>> MakeWithKernels(Make make,
                                                      const ModelConfig& config,
                                                      const TensorViews& views,
                                                      const DecoderOptions& options,
                                                      const WeightStream& stream) {
  MNEMON_ASSIGN_OR_RETURN(const CpuOperations* operations,
                          FindCpuOperations(options.target));
  MNEMON_ASSIGN_OR_RETURN(const WeightFormat format, FormatOf(views, options));
  static ThreadPool alone(1);  // without state: any number of models may share it
  return CatchOutOfMemory("the weights of this model",
                          [&]() -> absl::StatusOr<std::unique_ptr<Made>> {
                            return make(config, views,
                                        {.format = format,
                                         .operations = operations,
                                         .pool = options.pool ? options.pool : &alone,
                                         .device = options.device,
                                         .stream = stream});
                          });
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

std::vector<TensorShape> StoredTensors(const ModelConfig& config, bool int8) {
  const auto entry = FindArchitecture(config.architecture);
  MNEMON_CHECK(entry.ok());
  std::vector<TensorShape> tensors = (*entry)->tensors(config);
  if (!int8) return tensors;
  std::vector<TensorShape> stored;
  for (TensorShape& tensor : tensors) {
    tensor.int8 = IsInt8(config, tensor);
    stored.push_back(std::move(tensor));
    const TensorShape& last = stored.back();
    if (!last.int8) continue;
    stored.push_back({.name = names::Scale(last.name), .shape = {last.shape[0]}});
  }
  return stored;
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

absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const ModelConfig& config,
                                                     const TensorViews& views,
                                                     const DecoderOptions& options,
                                                     const WeightStream& stream) {
  MNEMON_RETURN_IF_ERROR(RequireAutoregressive(config));
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  if (entry->make_decoder == nullptr) return WrongKind(*entry, "has no step form");
  return MakeWithKernels<Decoder>(entry->make_decoder, config, views, options, stream);
}

absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(const ModelConfig& config,
                                                         const TensorViews& views,
                                                         const DecoderOptions& options,
                                                         const WeightStream& stream) {
  MNEMON_RETURN_IF_ERROR(RequireEncoder(config));
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  return MakeWithKernels<Predictor>(entry->make_predictor, config, views, options,
                                    stream);
}

absl::Status RequireAutoregressive(const ModelConfig& config) {
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  if (entry->autoregressive()) return absl::OkStatus();
  return WrongKind(*entry, "takes whole sequences, not token by token");
}

absl::Status RequireEncoder(const ModelConfig& config) {
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  if (!entry->autoregressive()) return absl::OkStatus();
  return WrongKind(*entry, "is autoregressive: it generates, it does not predict");
}

absl::StatusOr<bool> ServedBySequenceForm(const ModelConfig& config, bool steps,
                                          const DecoderOptions& options) {
  MNEMON_RETURN_IF_ERROR(RequireAutoregressive(config));
  MNEMON_ASSIGN_OR_RETURN(const ArchitectureEntry* entry,
                          FindArchitecture(config.architecture));
  if (entry->make_decoder != nullptr && steps && options.form == DecoderForm::kStep) {
    return false;
  }
  const WeightFormat wanted = options.format.value_or(WeightFormat::kFp32);
  if (wanted == WeightFormat::kFp32) return true;
  return InvalidField("precision", StrCat("--precision ", NameOf(wanted),
                                          " is for step forms: use fp32"));
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
