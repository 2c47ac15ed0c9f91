// SPDX-License-Identifier: MIT
#include "model/load/model_files.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/files/json.h"
#include "base/out_of_memory.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/tensor_names.h"
#include "model/families/families.h"
#include "model/io/foreign_files.h"
#include "model/io/gguf_files.h"
#include "model/io/other_paths.h"
#include "model/load/generation_config.h"
#include "nlohmann/json.hpp"

namespace mnemon {
namespace {

// Small mismatches are left to CheckTensors, which lists all of them; here, before the
// weights are read, files of an entirely different model are refused.
absl::Status CheckProportion(const ModelFiles& files) {
  constexpr int64_t kFactor = 4, kSlack = 64 << 20;
  int64_t needed = 0;  // no product overflows: CheckDescription bounds them
  for (const NeededTensor& tensor : files.stored) {
    needed += *TensorBytes(tensor.types[0], tensor.shape);
  }
  const int64_t held = files.weights.bytes();
  const auto fits = [](int64_t less, int64_t more) {
    return more / kFactor <= less + kSlack / kFactor;
  };
  if (fits(held, needed) && fits(needed, held)) return absl::OkStatus();
  return absl::InvalidArgumentError(StrCat("config.json describes ", needed,
                                           " bytes of weights, model.safetensors has ",
                                           held, " bytes"));
}

absl::Status CheckWeights(const WeightFiles& weights,
                          const std::vector<NeededTensor>& stored,
                          const std::vector<std::string>& ignored,
                          const std::vector<BadWeight>& bad_weights) {
  const absl::Status fits = CheckTensors(weights.files(), stored, bad_weights, ignored);
  return fits.ok() ? fits : Annotated(fits, "model.safetensors");
}

// Checks everything but the weights, of which nothing is read.
absl::StatusOr<ModelFiles> CheckOwn(const CheckpointFiles& files) {
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
  const std::vector<TensorShape> tensors =
      StoredTensors(checked.description, files.int8);
  for (const TensorShape& tensor : tensors) {
    if (names::IsScale(tensor.name)) continue;
    checked.tensors.push_back(TensorRecipe::As(tensor.name, tensor));
  }
  checked.stored = NeededOf(tensors);
  checked.weights = WeightFiles({files.weights});
  MNEMON_RETURN_IF_ERROR(CheckProportion(checked));
  checked.config = files.config;
  checked.architecture = files.config.architecture;
  checked.int8 = files.int8;
  checked.config_json = files.config_json;
  checked.tokenizer_json = files.tokenizer_json;
  checked.tokenizer_config_json = files.tokenizer_config_json;
  return checked;
}

absl::Status QuantizedWeights(std::string_view tensor) {
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      StrCat(
          "model.safetensors: ", Quoted(tensor),
          " is quantised by GPTQ or AWQ, which is not supported: take the model that "
          "was quantised, or a GGUF file of it"),
      {.reason = "UNSUPPORTED_MODEL"});
}

absl::StatusOr<ModelFiles> CheckForeign(const ForeignFiles& files,
                                        std::vector<std::string>& ignored) {
  MNEMON_ASSIGN_OR_RETURN(ForeignModel model, ReadForeignModel(files.config_json));
  GenerationDefaults generation;
  MNEMON_RETURN_IF_ERROR(ReadGenerationConfig(files.config_json, "config.json",
                                              model.description.vocab, generation));
  if (files.generation_config_json) {
    MNEMON_RETURN_IF_ERROR(ReadGenerationConfig(*files.generation_config_json,
                                                "generation_config.json",
                                                model.description.vocab, generation));
  }
  bool prefixed = false;
  for (const Safetensors& file : files.weights.files()) {
    for (const TensorInfo& tensor : file.header().tensors) {
      prefixed = prefixed || tensor.name.starts_with(model.prefix);
      // Written by GPTQ and AWQ, which config.json may not mention.
      if (tensor.name.ends_with(".qweight")) return QuantizedWeights(tensor.name);
    }
  }
  ModelFiles checked;
  checked.generation = std::move(generation);
  for (TensorRecipe& tensor : model.tensors) {
    for (TensorSource& source : tensor.from) {
      if (!prefixed && source.name.starts_with(model.prefix)) {
        source.name.erase(0, model.prefix.size());
      }
      checked.stored.push_back(
          {source.name, source.shape, {DType::kF32, DType::kBF16, DType::kF16}});
    }
  }
  if (files.tokenizer_json) {
    auto tokenizer = ParseTokenizer(*files.tokenizer_json, model.description.vocab);
    if (tokenizer.ok()) checked.tokenizer = *std::move(tokenizer);
    checked.no_tokenizer = tokenizer.status();
  } else {
    checked.no_tokenizer = files.no_tokenizer;
  }
  auto chat = ChatProgram::Make({.chat_template_jinja = files.chat_template_jinja,
                                 .tokenizer_config_json = files.tokenizer_config_json,
                                 .chat_template_json = files.chat_template_json});
  if (chat.ok()) checked.chat_program = *std::move(chat);
  checked.no_chat_program = chat.status();
  ignored = std::move(model.ignored);
  checked.weights = files.weights;
  MNEMON_RETURN_IF_ERROR(CheckProportion(checked));
  checked.architecture = std::move(model.architecture);
  checked.description = std::move(model.description);
  checked.tensors = std::move(model.tensors);
  checked.config_json = files.config_json;
  return checked;
}

// `checked` with the check of its tensors. Its faults count only if the weights were
// verified: weights that do not match their manifest need not be valid.
absl::StatusOr<ModelFiles> WithTensorsChecked(
    absl::StatusOr<ModelFiles> checked,
    std::future<absl::StatusOr<VerifiedWeights>> verified,
    const std::vector<std::string>& ignored, const std::string& dir,
    bool refuse_non_finite) {
  if (!checked.ok()) return Annotated(checked.status(), Quoted(dir));
  const auto check = [ignored, weights = checked->weights,
                      stored = checked->stored](const std::vector<BadWeight>& bad) {
    return CatchOutOfMemory("the list of tensors", [&] {
      return CheckWeights(weights, stored, ignored, bad);
    });
  };
  absl::Status fits = check({});
  if (!fits.ok()) {
    MNEMON_ASSIGN_OR_RETURN(const VerifiedWeights found, verified.get());
    if (refuse_non_finite) fits = check(found.bad_weights);
    return Annotated(fits, Quoted(dir));
  }
  checked->verified = std::async(
      std::launch::deferred,
      [dir, refuse_non_finite, check,
       verified = std::move(verified)]() mutable -> absl::StatusOr<VerifiedWeights> {
        MNEMON_ASSIGN_OR_RETURN(VerifiedWeights found, verified.get());
        if (refuse_non_finite && !found.bad_weights.empty()) {
          return Annotated(check(found.bad_weights), Quoted(dir));
        }
        return found;
      });
  return checked;
}

absl::StatusOr<ModelFiles> ReadAndCheck(const std::string& given,
                                        bool refuse_non_finite) {
  const char* const what = "the tokenizer or the list of tensors";
  const auto check_foreign = [&](ForeignFiles files, const std::string& path) {
    std::vector<std::string> ignored;
    absl::StatusOr<ModelFiles> checked =
        CatchOutOfMemory(what, [&] { return CheckForeign(files, ignored); });
    return WithTensorsChecked(std::move(checked), std::move(files.verified), ignored,
                              path, refuse_non_finite);
  };
  if (IsGgufFile(given)) {
    MNEMON_ASSIGN_OR_RETURN(ForeignFiles files, ReadGgufFiles(given));
    return check_foreign(std::move(files), given);
  }
  MNEMON_RETURN_IF_ERROR(CheckIsDirectory(given));
  if (const auto dir = FindForeignDirectory(given); dir.has_value()) {
    MNEMON_ASSIGN_OR_RETURN(ForeignFiles files, ReadForeignFiles(*dir));
    return check_foreign(std::move(files), *dir);
  }
  MNEMON_ASSIGN_OR_RETURN(CheckpointFiles files, ReadCheckpoint(given));
  absl::StatusOr<ModelFiles> checked =
      CatchOutOfMemory(what, [&] { return CheckOwn(files); });
  return WithTensorsChecked(std::move(checked), std::move(files.verified), {}, given,
                            refuse_non_finite);
}

StoredRows RowsOf(const WeightFiles::Found& found, const TensorSource& source) {
  StoredRows rows = {.data = reinterpret_cast<const std::byte*>(found.data),
                     .rows = source.rows};
  int64_t size = sizeof(uint16_t);
  if (found.info->dtype == DType::kF32) size = sizeof(float);
  if (found.info->dtype == DType::kBF16) rows.number = StoredNumber::kBf16;
  if (found.info->dtype == DType::kF16) rows.number = StoredNumber::kFp16;
  int64_t width = 1;
  for (size_t i = 1; i < source.shape.size(); ++i) width *= source.shape[i];
  rows.row_step = source.transposed ? 1 : width;
  rows.column_step = source.transposed ? width : 1;
  rows.data += source.first * rows.row_step * size;
  return rows;
}

}  // namespace

int64_t ModelFiles::parameters() const {
  int64_t count = 0;
  for (const TensorRecipe& tensor : tensors) {
    int64_t numbers = 1;
    for (const int64_t size : tensor.shape) numbers *= size;
    count += numbers;
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

absl::Status RequireOwn(const ModelFiles& files) {
  if (files.config) return absl::OkStatus();
  return absl::FailedPreconditionError(
      StrCat("a model of type ", files.architecture,
             " in the files of Hugging Face's libraries: it is served, scored and "
             "sampled from, not trained or converted"));
}

TensorViews ViewWeights(const ModelFiles& files) {
  TensorViews views;
  for (const TensorRecipe& tensor : files.tensors) {
    TensorView& view = views.emplace_back(TensorView{tensor.ours, tensor.shape});
    for (const TensorSource& source : tensor.from) {
      const WeightFiles::Found found = files.weights.Find(source.name);
      if (found.info->dtype == DType::kI8) {
        view.int8 = reinterpret_cast<const int8_t*>(found.data);
        view.scales = reinterpret_cast<const std::byte*>(
            files.weights.Find(names::Scale(tensor.ours)).data);
        continue;
      }
      const bool plain = tensor.from.size() == 1 && !source.transposed &&
                         source.first == 0 && source.shape == tensor.shape &&
                         found.info->dtype == DType::kF32 &&
                         reinterpret_cast<uintptr_t>(found.data) % alignof(float) == 0;
      if (plain) {
        view.data = reinterpret_cast<const float*>(found.data);
      } else {
        view.stored.push_back(RowsOf(found, source));
      }
    }
  }
  return views;
}

}  // namespace mnemon
