// SPDX-License-Identifier: MIT
#include "model/program/make_decoder.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/step_options.h"
#include "model/compute/thread_pool.h"
#include "model/operations/cpu_operations.h"
#include "model/program/encoder_predictor.h"
#include "model/program/step_decoder.h"

namespace mnemon {
namespace {

absl::Status WrongKind(std::string_view fault) {
  return MakeError(absl::StatusCode::kFailedPrecondition, StrCat("the model ", fault),
                   {.reason = "MODEL_KIND", .field = "model"});
}

bool IsBf16(const TensorView& view) {
  return !view.stored.empty() &&
         std::ranges::all_of(view.stored, [](const StoredRows& rows) {
           return rows.number == StoredNumber::kBf16;
         });
}

// Format that steps read the weights in.
absl::StatusOr<WeightFormat> FormatOf(const TensorViews& views,
                                      const DecoderOptions& options) {
  const WeightFormat stored = FormatOf(views);
  const WeightFormat wanted = options.format.value_or(stored);
  if (stored != WeightFormat::kInt8 || wanted == stored) return wanted;
  return InvalidField(
      "precision",
      StrCat("--precision ", NameOf(wanted), ": model.safetensors holds int8 weights: ",
             "use int8 or leave the flag out, or take the fp32 checkpoint that they "
             "were made of"));
}

// Calls `make` for a Decoder or Predictor, with the kernels that `options` name.
template <class Made, class Make>
absl::StatusOr<std::unique_ptr<Made>> MakeWithKernels(Make make,
                                                      const ModelDescription& model,
                                                      const TensorViews& views,
                                                      const DecoderOptions& options,
                                                      const WeightStream& stream) {
  MNEMON_ASSIGN_OR_RETURN(const CpuOperations* operations,
                          FindCpuOperations(options.target));
  MNEMON_ASSIGN_OR_RETURN(const WeightFormat format, FormatOf(views, options));
  static ThreadPool alone(1);  // stateless: any number of models may share it
  return CatchOutOfMemory("the weights of this model",
                          [&]() -> absl::StatusOr<std::unique_ptr<Made>> {
                            return make(model, views,
                                        {.format = format,
                                         .operations = operations,
                                         .pool = options.pool ? options.pool : &alone,
                                         .device = options.device,
                                         .stream = stream});
                          });
}

}  // namespace

WeightFormat FormatOf(const TensorViews& views) {
  bool bf16 = false, others = false;
  for (const TensorView& view : views) {
    if (view.int8 != nullptr) return WeightFormat::kInt8;
    if (view.shape.size() < 2) continue;
    (IsBf16(view) ? bf16 : others) = true;
  }
  return bf16 && !others ? WeightFormat::kBf16 : WeightFormat::kFp32;
}

absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(const ModelDescription& model,
                                                     const TensorViews& views,
                                                     const DecoderOptions& options,
                                                     const WeightStream& stream) {
  MNEMON_RETURN_IF_ERROR(RequireAutoregressive(model));
  return MakeWithKernels<Decoder>(MakeStepDecoder, model, views, options, stream);
}

absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(const ModelDescription& model,
                                                         const TensorViews& views,
                                                         const DecoderOptions& options,
                                                         const WeightStream& stream) {
  MNEMON_RETURN_IF_ERROR(RequireWholeSequences(model));
  return MakeWithKernels<Predictor>(MakeEncoderPredictor, model, views, options,
                                    stream);
}

std::string KernelsOf(const DecoderOptions& options) {
  return (*FindCpuOperations(options.target))->target;
}

absl::Status RequireAutoregressive(const ModelDescription& model) {
  if (!model.whole_sequences) return absl::OkStatus();
  return WrongKind("takes whole sequences, not token by token");
}

absl::Status RequireWholeSequences(const ModelDescription& model) {
  if (model.whole_sequences) return absl::OkStatus();
  return WrongKind("is autoregressive: it generates, it does not predict");
}

absl::StatusOr<bool> ServedBySequenceForm(const ModelDescription& model, bool steps,
                                          const DecoderOptions& options) {
  MNEMON_RETURN_IF_ERROR(RequireAutoregressive(model));
  if (steps && options.form == DecoderForm::kStep) return false;
  const WeightFormat wanted = options.format.value_or(WeightFormat::kFp32);
  if (wanted == WeightFormat::kFp32) return true;
  return InvalidField("precision", StrCat("--precision ", NameOf(wanted),
                                          " is for step forms: use fp32"));
}

}  // namespace mnemon
