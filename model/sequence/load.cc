// SPDX-License-Identifier: MIT
#include "model/sequence/load.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/load/model_files.h"
#include "model/sequence/device.h"
#include "model/sequence/make_model.h"

namespace mnemon {
namespace {

absl::StatusOr<LoadedModel> Load(ModelFiles& files, const LoadOptions& options) {
  if (files.int8) return NeedsFp32Weights();
  LoadedModel loaded;
  MNEMON_ASSIGN_OR_RETURN(loaded.model, MakeModel(files.description));
  MNEMON_RETURN_IF_ERROR(files.weights.Finish());
  CopyWeights(ViewWeights(files), *loaded.model);
  try {
    MoveWeights(*loaded.model, options.device);
  } catch (const std::exception&) {
    return OutOfMemoryError(StrCat("the weights on ", options.device.str()));
  }
  RequireGradients(*loaded.model, false);
  loaded.tokenizer = std::move(files.tokenizer);
  loaded.config = std::move(files.config);
  loaded.architecture = std::move(files.architecture);
  loaded.description = std::move(files.description);
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& dir,
                                           const LoadOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(ModelFiles files,
                          ReadModelFiles(dir, options.refuse_non_finite));
  try {
    absl::StatusOr<LoadedModel> loaded = Load(files, options);
    MNEMON_ASSIGN_OR_RETURN(VerifiedWeights verified, files.verified.get());
    if (!loaded.ok()) return Annotated(loaded.status(), Quoted(dir));
    loaded->model_id = std::move(verified.model_id);
    return loaded;
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat(Quoted(dir), ": ", error.what()));
  }
}

absl::StatusOr<ServedModel> LoadStepForm(const std::string& dir, at::Device device,
                                         const DecoderOptions& options,
                                         std::optional<int64_t> max_context) {
  return LoadServedModel(
      dir, {.device = device.is_cpu() ? "cpu" : device.str(),
            .max_context = max_context,
            .decoder = options,
            .make_sequence = [device](const ModelDescription& description,
                                      const TensorViews& views, const std::string&) {
              return MakeSequenceDecoder(description, views, device);
            }});
}

}  // namespace mnemon
