// SPDX-License-Identifier: MIT
#include "model/load/load.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/load/model_files.h"
#include "model/load/sequence_module.h"

namespace mnemon {
namespace {

// Limits the positions to `most`. The views may show more.
absl::StatusOr<ModelDescription> LimitContext(ModelDescription model,
                                              std::optional<int64_t> most) {
  if (!most) return model;
  if (*most > model.context) {
    return InvalidField("max_context",
                        StrCat("--max-context ", *most, ": the model has ",
                               model.context, " positions"));
  }
  model.context = *most;
  return model;
}

absl::Status MakeServing(const ModelFiles& files, const ModelDescription& model,
                         const ServeModelOptions& options, ServedModel& served) {
  const TensorViews views = ViewWeights(files);
  served.format = options.decoder.format.value_or(FormatOf(views));
  const WeightStream stream = files.weights.Stream();
  if (model.whole_sequences) {
    MNEMON_ASSIGN_OR_RETURN(served.predictor,
                            MakePredictor(model, views, options.decoder, stream));
    served.kernels = KernelsOf(options.decoder);
    return absl::OkStatus();
  }
  DecoderOptions decoder = options.decoder;
  if (options.open_device && decoder.form == DecoderForm::kStep) {
    MNEMON_ASSIGN_OR_RETURN(served.device, options.open_device());
    decoder.device = served.device.get();
  }
  const absl::StatusOr<bool> sequence = ServedBySequenceForm(
      model, options.device == "cpu" || decoder.device != nullptr, decoder);
  if (files.int8 && (!sequence.ok() || *sequence)) return NeedsFp32Weights();
  MNEMON_RETURN_IF_ERROR(sequence.status());
  if (!*sequence) {
    MNEMON_ASSIGN_OR_RETURN(served.decoder, MakeDecoder(model, views, decoder, stream));
    served.kernels = decoder.device ? options.device : KernelsOf(decoder);
    return absl::OkStatus();
  }
  SequenceDecoderMaker make = options.make_sequence;
  if (!make) {
    MNEMON_ASSIGN_OR_RETURN(const SequenceModule* module, LoadSequenceModule());
    make = [module](const ModelDescription& m, const TensorViews& v,
                    const std::string& d) { return module->MakeDecoder(m, v, d); };
  }
  MNEMON_RETURN_IF_ERROR(files.weights.Finish());
  MNEMON_ASSIGN_OR_RETURN(served.decoder, make(model, views, options.device));
  served.kernels = "torch";
  return absl::OkStatus();
}

absl::StatusOr<ServedModel> Load(const std::string& dir,
                                 const ServeModelOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(dir));
  absl::StatusOr<ModelDescription> model =
      LimitContext(files.description, options.max_context);
  if (!model.ok()) return Annotated(model.status(), Quoted(dir));
  ServedModel served;
  const absl::Status made = MakeServing(files, *model, options, served);
  MNEMON_ASSIGN_OR_RETURN(VerifiedWeights verified, files.verified.get());
  if (!made.ok()) return Annotated(made, Quoted(dir));
  served.parameters = files.parameters();
  served.architecture = std::move(files.architecture);
  served.config_json = files.config ? ConfigToJson(*files.config) : files.config_json;
  served.description = *std::move(model);
  served.model_id = std::move(verified.model_id);
  for (const NeededTensor& tensor : files.stored) {
    served.tensors.push_back(*files.weights.Find(tensor.name).info);
  }
  served.tokenizer = std::move(files.tokenizer);
  served.no_tokenizer = std::move(files.no_tokenizer);
  served.chat_template = std::move(files.chat_template);
  served.chat_program = std::move(files.chat_program);
  served.no_chat_program = std::move(files.no_chat_program);
  served.generation = std::move(files.generation);
  return served;
}

}  // namespace

absl::StatusOr<ServedModel> LoadServedModel(const std::string& dir,
                                            const ServeModelOptions& options) {
  return CatchOutOfMemory(Quoted(dir), [&] { return Load(dir, options); });
}

}  // namespace mnemon
