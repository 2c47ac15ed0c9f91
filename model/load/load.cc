// SPDX-License-Identifier: MIT
#include "model/load/load.h"

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_bytes.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "model/load/model_files.h"
#include "model/load/sequence_module.h"

namespace mnemon {
namespace {

absl::Status MakeServing(const ModelFiles& files, const ServeModelOptions& options,
                         ServedModel& served) {
  const ModelDescription& model = files.description;
  std::vector<std::vector<float>> copies;
  const TensorViews views = ViewWeights(files, copies);
  FileBytes& file = files.weights.file();
  // Copies of weights lie elsewhere, and are there.
  const auto offset = [&file](const void* at) {
    const std::string_view all = file.view();
    const auto* byte = static_cast<const char*>(at);
    const bool inside = std::less_equal<>()(all.data(), byte) &&
                        std::less_equal<>()(byte, all.data() + all.size());
    return inside ? byte - all.data() : 0;
  };
  const WeightStream stream = {
      // A failure is found by verified.get().
      .await = [&](const void* end) { file.Await(offset(end)).IgnoreError(); },
      .release_before = [&](const void* begin) { file.ReleaseBefore(offset(begin)); }};
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
  MNEMON_RETURN_IF_ERROR(file.Finish());
  MNEMON_ASSIGN_OR_RETURN(served.decoder, make(model, views, options.device));
  served.kernels = "torch";
  return absl::OkStatus();
}

absl::StatusOr<ServedModel> Load(const std::string& dir,
                                 const ServeModelOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files, ReadModelFiles(dir));
  ServedModel served;
  const absl::Status made = MakeServing(files, options, served);
  MNEMON_ASSIGN_OR_RETURN(VerifiedWeights verified, files.verified.get());
  if (!made.ok()) return Annotated(made, Quoted(dir));
  served.parameters = files.parameters();
  served.config = std::move(files.config);
  served.description = std::move(files.description);
  served.model_id = std::move(verified.model_id);
  served.tensors = std::move(files.tensors);
  served.format = options.decoder.format.value_or(files.int8 ? WeightFormat::kInt8
                                                             : WeightFormat::kFp32);
  served.tokenizer = std::move(files.tokenizer);
  served.chat_template = std::move(files.chat_template);
  return served;
}

}  // namespace

absl::StatusOr<ServedModel> LoadServedModel(const std::string& dir,
                                            const ServeModelOptions& options) {
  return CatchOutOfMemory(Quoted(dir), [&] { return Load(dir, options); });
}

}  // namespace mnemon
