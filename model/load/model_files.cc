// SPDX-License-Identifier: MIT
#include "model/load/model_files.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/tensor_names.h"
#include "model/families/families.h"
#include "model/io/tensor_check.h"

namespace mnemon {
namespace {

// Small misfits are left to CheckTensors, which lists every one of them; what is
// refused here, before the weights are read, is a file of another model altogether.
absl::Status CheckProportion(const std::vector<TensorShape>& tensors,
                             const Safetensors& weights) {
  constexpr int64_t kFactor = 4, kSlack = 64 << 20;
  int64_t needed = 0;  // no product overflows: ValidateConfig bounds them
  for (const TensorShape& tensor : tensors) {
    needed += *TensorBytes(TypeOf(tensor), tensor.shape);
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

absl::Status CheckWeights(const Safetensors& weights,
                          const std::vector<TensorShape>& tensors,
                          const std::vector<BadWeight>& bad_weights) {
  const absl::Status fits = CheckTensors(weights, tensors, bad_weights);
  return fits.ok() ? fits : Annotated(fits, "model.safetensors");
}

// Everything but the weights themselves; of them nothing is read.
absl::StatusOr<ModelFiles> Check(const CheckpointFiles& files) {
  ModelFiles checked;
  MNEMON_ASSIGN_OR_RETURN(checked.description, DescribeModel(files.config));
  if (files.tokenizer_json) {
    MNEMON_ASSIGN_OR_RETURN(checked.tokenizer, ParseTokenizer(*files.tokenizer_json));
    if (checked.tokenizer->size() != files.config.vocab) {
      return absl::InvalidArgumentError(
          StrCat("tokenizer.json has ", checked.tokenizer->size(),
                 " tokens, config.json has vocab ", files.config.vocab));
    }
  }
  if (files.tokenizer_config_json) {
    MNEMON_ASSIGN_OR_RETURN(checked.chat_template,
                            ParseTokenizerConfig(*files.tokenizer_config_json));
  }
  checked.tensors = StoredTensors(checked.description, files.int8);
  MNEMON_RETURN_IF_ERROR(CheckProportion(checked.tensors, files.weights));
  checked.config = files.config;
  checked.int8 = files.int8;
  checked.weights = files.weights;
  checked.config_json = files.config_json;
  checked.tokenizer_json = files.tokenizer_json;
  checked.tokenizer_config_json = files.tokenizer_config_json;
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
      what, [&] { return CheckWeights(files.weights, checked->tensors, {}); });
  if (!fits.ok()) {
    // What does not match the manifest need not make sense; what does, has all of its
    // faults listed.
    MNEMON_ASSIGN_OR_RETURN(const VerifiedWeights found, files.verified.get());
    if (refuse_non_finite) {
      fits = CheckWeights(files.weights, checked->tensors, found.bad_weights);
    }
    return Annotated(fits, Quoted(dir));
  }
  checked->verified = std::async(
      std::launch::deferred,
      [dir, refuse_non_finite, tensors = checked->tensors,
       weights = std::move(files.weights),
       verified =
           std::move(files.verified)]() mutable -> absl::StatusOr<VerifiedWeights> {
        MNEMON_ASSIGN_OR_RETURN(VerifiedWeights found, verified.get());
        if (refuse_non_finite && !found.bad_weights.empty()) {
          return Annotated(CheckWeights(weights, tensors, found.bad_weights),
                           Quoted(dir));
        }
        return found;
      });
  return checked;
}

}  // namespace

int64_t ModelFiles::parameters() const {
  int64_t count = 0;
  for (const TensorShape& tensor : tensors) {
    if (!names::IsScale(tensor.name)) count += weights.Find(tensor.name)->elements();
  }
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
  const auto floats = [&](const std::string& name) {
    const TensorInfo& tensor = *files.weights.Find(name);
    const char* bytes = files.weights.Bytes(tensor).data();
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
      return reinterpret_cast<const float*>(bytes);
    }
    copies.push_back(*files.weights.Floats(tensor));
    return static_cast<const float*>(copies.back().data());
  };
  TensorViews views;
  for (const TensorShape& tensor : files.tensors) {
    if (names::IsScale(tensor.name)) continue;
    TensorView& view = views.emplace_back(TensorView{tensor.name, tensor.shape});
    if (tensor.int8) {
      view.int8 = reinterpret_cast<const int8_t*>(
          files.weights.Bytes(*files.weights.Find(tensor.name)).data());
      view.scales = floats(names::Scale(tensor.name));
    } else {
      view.data = floats(tensor.name);
    }
  }
  return views;
}

}  // namespace mnemon
