// SPDX-License-Identifier: MIT
#include "model/load/model_files.h"

#include <exception>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "model/io/tensor_check.h"
#include "model/registry/registry.h"

namespace mnemon {
namespace {

std::vector<TensorShape> TensorsOf(const ModelConfig& config) {
  const auto entry = FindArchitecture(config.architecture);
  MNEMON_CHECK(entry.ok());  // the configuration was validated
  return (*entry)->tensors(config);
}

// Small misfits are left to CheckTensors, which lists every one of them; what is
// refused here, before the weights are read, is a file of another model altogether.
absl::Status CheckProportion(const std::vector<TensorShape>& tensors,
                             const Safetensors& weights) {
  constexpr int64_t kFactor = 4, kSlack = 64 << 20;
  int64_t needed = 0;  // no product overflows: ValidateConfig bounds them
  for (const TensorShape& tensor : tensors) {
    needed += *TensorBytes(DType::kF32, tensor.shape);
  }
  const auto held = static_cast<int64_t>(weights.file().view().size());
  const auto fits = [](int64_t less, int64_t more) {
    return more / kFactor <= less + kSlack / kFactor;
  };
  if (fits(held, needed) && fits(needed, held)) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("config.json describes ", needed,
                                           " bytes of weights, model.safetensors has ",
                                           held, " bytes"));
}

absl::Status CheckWeights(const Safetensors& weights, const ModelConfig& config,
                          const std::vector<BadWeight>& bad_weights) {
  const absl::Status fits = CheckTensors(weights, TensorsOf(config), bad_weights);
  return fits.ok() ? fits : Annotated(fits, "model.safetensors");
}

// Everything but the weights themselves; of them nothing is read.
absl::StatusOr<ModelFiles> Check(const CheckpointFiles& files) {
  ModelFiles checked;
  MNEMON_RETURN_IF_ERROR(ValidateModel(files.config));
  if (files.tokenizer_json) {
    MNEMON_ASSIGN_OR_RETURN(checked.tokenizer, ParseTokenizer(*files.tokenizer_json));
    if (checked.tokenizer->size() != files.config.vocab) {
      return absl::InvalidArgumentError(
          StrCat("tokenizer.json has ", checked.tokenizer->size(),
                 " tokens, config.json has vocab ", files.config.vocab));
    }
  }
  MNEMON_RETURN_IF_ERROR(CheckProportion(TensorsOf(files.config), files.weights));
  checked.config = files.config;
  checked.weights = files.weights;
  return checked;
}

absl::StatusOr<ModelFiles> ReadAndCheck(const std::string& dir,
                                        bool refuse_non_finite) {
  MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(dir));
  const char* const what = "the tokenizer or the list of tensors";
  absl::StatusOr<ModelFiles> checked =
      CatchOutOfMemory(what, [&] { return Check(files); });
  if (!checked.ok()) return Annotated(checked.status(), Quoted(dir));
  absl::Status fits = CatchOutOfMemory(
      what, [&] { return CheckWeights(files.weights, files.config, {}); });
  if (!fits.ok()) {
    // What does not match the manifest need not make sense; what does, has all of its
    // faults listed.
    MNEMON_ASSIGN_OR_RETURN(const VerifiedWeights found, files.verified.get());
    if (refuse_non_finite) {
      fits = CheckWeights(files.weights, files.config, found.bad_weights);
    }
    return Annotated(fits, Quoted(dir));
  }
  checked->model_id = std::async(
      std::launch::deferred,
      [dir, refuse_non_finite, config = std::move(files.config),
       weights = std::move(files.weights),
       verified = std::move(files.verified)]() mutable -> absl::StatusOr<std::string> {
        MNEMON_ASSIGN_OR_RETURN(VerifiedWeights found, verified.get());
        if (refuse_non_finite && !found.bad_weights.empty()) {
          return Annotated(CheckWeights(weights, config, found.bad_weights),
                           Quoted(dir));
        }
        return std::move(found.model_id);
      });
  return checked;
}

}  // namespace

int64_t ModelFiles::parameters() const {
  int64_t count = 0;
  for (const TensorInfo& tensor : weights.header().tensors) count += tensor.elements();
  return count;
}

absl::StatusOr<ModelFiles> ReadModelFiles(const std::string& dir,
                                          bool refuse_non_finite) {
  try {
    return CatchOutOfMemory(Quoted(dir),
                            [&] { return ReadAndCheck(dir, refuse_non_finite); });
  } catch (const std::exception& error) {
    return Annotated(absl::InternalError(error.what()), Quoted(dir));
  }
}

TensorViews ViewWeights(const ModelFiles& files,
                        std::vector<std::vector<float>>& copies) {
  TensorViews views;
  for (const TensorShape& tensor : TensorsOf(files.config)) {
    const TensorInfo* found = files.weights.Find(tensor.name);
    MNEMON_CHECK(found != nullptr);
    const char* bytes = files.weights.Bytes(*found).data();
    const auto* floats = reinterpret_cast<const float*>(bytes);
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(float) != 0) {
      copies.push_back(*files.weights.Floats(*found));
      floats = copies.back().data();
    }
    views.push_back({tensor.name, tensor.shape, floats});
  }
  return views;
}

}  // namespace mnemon
