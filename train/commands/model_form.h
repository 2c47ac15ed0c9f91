// SPDX-License-Identifier: MIT
// A checkpoint in one of the two forms of its model, for score and eval.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/decoder/decoder.h"
#include "model/sequence/model.h"
#include "model/text/tokenizer.h"
#include "train/commands/compute_flags.h"

namespace mnemon {

struct ModelInForm {
  std::string architecture;  // or the model_type
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;  // null if the checkpoint has none
  int64_t parameters = 0;
  std::unique_ptr<Model> model;      // the sequence form, or
  std::unique_ptr<Decoder> decoder;  // the step form, which an encoder lacks
};

// Loads the checkpoint `dir`. `form`: "sequence" or "step". UsageError for flags that
// the sequence form does not take, such as another precision than fp32. Else the errors
// of LoadCheckpoint or LoadStepForm.
absl::StatusOr<ModelInForm> LoadInForm(const std::string& dir, const std::string& form,
                                       const Compute& compute);

}  // namespace mnemon
