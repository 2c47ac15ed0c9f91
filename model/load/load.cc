// SPDX-License-Identifier: MIT
#include "model/load/load.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/io/tensors.h"
#include "model/registry/registry.h"
#include "model/sequence/device.h"

namespace mnemon {
namespace {

// Parameters that every architecture has at these sizes: see
// model/weights/tensor_names.h.
int64_t LeastParameters(const ModelConfig& c) {
  const int64_t layer = 2 * c.d_model * c.d_model + 2 * c.d_model * c.d_ff;
  const int64_t table = c.position_kind == PositionKind::kRelative
                            ? c.layers * c.positions
                        : c.position_kind == PositionKind::kLearned ? c.positions
                                                                    : 0;
  return c.vocab * c.d_model + c.layers * layer + table * c.d_model;
}

// Small misfits are left to LoadWeights, which lists every one of them; what is refused
// here is a configuration that would allocate out of proportion to its file.
absl::Status CheckProportion(const CheckpointFiles& files) {
  constexpr int64_t kFactor = 4, kSlack = 64 << 20;
  const int64_t needed = LeastParameters(files.config) * int64_t{sizeof(float)};
  const int64_t held = static_cast<int64_t>(files.weights.bytes().size());
  if (needed / kFactor <= held + kSlack / kFactor) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("config.json describes at least ", needed,
                                           " bytes of weights, model.safetensors "
                                           "has ",
                                           held, " bytes"));
}

absl::StatusOr<LoadedModel> Load(CheckpointFiles files, const LoadOptions& options) {
  LoadedModel loaded;
  MNEMON_RETURN_IF_ERROR(ValidateModel(files.config));
  if (files.tokenizer_json) {
    MNEMON_ASSIGN_OR_RETURN(loaded.tokenizer, ParseTokenizer(*files.tokenizer_json));
    if (loaded.tokenizer->size() != files.config.vocab) {
      return absl::InvalidArgumentError(
          StrCat("tokenizer.json has ", loaded.tokenizer->size(),
                 " tokens, config.json has vocab ", files.config.vocab));
    }
  }
  MNEMON_RETURN_IF_ERROR(CheckProportion(files));
  MNEMON_ASSIGN_OR_RETURN(loaded.model, MakeModel(files.config));
  absl::Status weights =
      LoadWeights(files.weights, options.refuse_non_finite, *loaded.model);
  if (!weights.ok()) return Annotated(weights, "model.safetensors");
  try {
    MoveWeights(*loaded.model, options.device);
  } catch (const std::exception&) {
    return absl::ResourceExhaustedError(
        StrCat("no memory for the weights on ", options.device.str()));
  }
  RequireGradients(*loaded.model, false);
  loaded.config = std::move(files.config);
  loaded.model_id = std::move(files.model_id);
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedModel> LoadCheckpoint(const std::string& dir,
                                           const LoadOptions& options) {
  MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(dir));
  try {
    absl::StatusOr<LoadedModel> loaded = Load(std::move(files), options);
    if (!loaded.ok()) return Annotated(loaded.status(), Quoted(dir));
    return loaded;
  } catch (const std::exception& error) {
    return absl::InternalError(StrCat(Quoted(dir), ": ", error.what()));
  }
}

}  // namespace mnemon
