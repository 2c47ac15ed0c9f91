// SPDX-License-Identifier: MIT
#include "train/commands/model_form.h"

#include <optional>
#include <utility>

#include "base/process/command_line.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/compute/kernels.h"
#include "model/sequence/load.h"

namespace mnemon {

absl::StatusOr<ModelInForm> LoadInForm(const std::string& dir, const std::string& form,
                                       const Compute& compute) {
  if (form == "step") {
    MNEMON_ASSIGN_OR_RETURN(
        ServedModel served,
        LoadStepForm(dir, compute.device, compute.decoder, compute.max_context));
    return ModelInForm{.architecture = std::move(served.architecture),
                       .description = std::move(served.description),
                       .tokenizer = std::move(served.tokenizer),
                       .parameters = served.parameters,
                       .model = nullptr,
                       .decoder = std::move(served.decoder)};
  }
  const std::optional<WeightFormat> format = compute.decoder.format;
  if (format.has_value() && *format != WeightFormat::kFp32) {
    return UsageError(StrCat("--precision ", NameOf(*format),
                             " is for steps: add --form step, or leave it out"));
  }
  if (compute.max_context) {
    return UsageError("--max-context is for steps: add --form step, or leave it out");
  }
  MNEMON_ASSIGN_OR_RETURN(const at::Device device, TensorDevice(compute.device_name));
  MNEMON_ASSIGN_OR_RETURN(LoadedModel loaded, LoadCheckpoint(dir, {.device = device}));
  const int64_t parameters = CountParameters(*loaded.model);
  return ModelInForm{.architecture = std::move(loaded.architecture),
                     .description = std::move(loaded.description),
                     .tokenizer = std::move(loaded.tokenizer),
                     .parameters = parameters,
                     .model = std::move(loaded.model),
                     .decoder = nullptr};
}

}  // namespace mnemon
