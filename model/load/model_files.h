// SPDX-License-Identifier: MIT
// The files of a model, read and checked, before a model is made of them: of our own
// checkpoint, of a Hugging Face directory, or a GGUF file.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/compute/weights.h"
#include "model/description/description.h"
#include "model/families/config.h"
#include "model/families/foreign.h"
#include "model/io/checkpoint.h"
#include "model/io/tensor_check.h"
#include "model/io/weight_files.h"
#include "model/sampling/generation_defaults.h"
#include "model/text/chat_program.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"

namespace mnemon {

struct ModelFiles {
  std::optional<ModelConfig> config;  // none: another project's
  std::string architecture;           // or the model_type
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the model has none, only ids work
  absl::Status no_tokenizer;             // why another project's is not supported
  ChatTemplate chat_template;
  // Template of a model of another project, which replaces `chat`; null if there is
  // none, or if it is not supported, and why.
  std::shared_ptr<const ChatProgram> chat_program;
  absl::Status no_chat_program;
  GenerationDefaults generation;
  bool int8 = false;                  // int8 matrices; false: all weights are floats
  std::vector<TensorRecipe> tensors;  // of the model, in order
  std::vector<NeededTensor> stored;   // of the files, in the same order
  // These tensors; the data may still be loading.
  WeightFiles weights;
  // See CheckpointFiles::verified; depending on an option also INVALID_ARGUMENT for bad
  // weights. What was made of the weights must not be used before it returns OK.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
  // Contents of the files.
  std::string config_json;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;

  int64_t parameters() const;
};

// Reads and checks the model in `dir` (which may be a link such as run/last, or a GGUF
// file), except for what `verified` reports. Errors are those of ReadFile and
// CheckIsDirectory, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS,
// RESOURCE_EXHAUSTED or INTERNAL; they name the file or `dir`, and every fault.
// Declared sizes are checked before anything is allocated.
absl::StatusOr<ModelFiles> ReadModelFiles(const std::string& dir,
                                          bool refuse_non_finite = true);

// FAILED_PRECONDITION if the files are not our own checkpoint.
absl::Status RequireOwn(const ModelFiles& files);

// Views of the weights in the order of the architecture's tensors. Their data must be
// waited for.
TensorViews ViewWeights(const ModelFiles& files);

}  // namespace mnemon
