// SPDX-License-Identifier: MIT
// The files of a model, read and checked, before a model is made of them: those of a
// checkpoint of ours, of a directory of Hugging Face, or a GGUF file.
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
  std::optional<ModelConfig> config;  // none: of another project
  std::string architecture;           // or the model_type
  ModelDescription description;
  std::unique_ptr<Tokenizer> tokenizer;  // null: the model has none, only ids work
  absl::Status no_tokenizer;             // why that of another project is not supported
  ChatTemplate chat_template;
  // In place of it: the template of a model of another project; null: it has none, or
  // one that is not supported, and why.
  std::shared_ptr<const ChatProgram> chat_program;
  absl::Status no_chat_program;
  GenerationDefaults generation;
  bool int8 = false;                  // the matrices; else all weights are floats
  std::vector<TensorRecipe> tensors;  // of the model, in their order
  std::vector<NeededTensor> stored;   // of the files, in the same order
  // These tensors; the data may be on its way.
  WeightFiles weights;
  // As CheckpointFiles::verified, and by option INVALID_ARGUMENT for bad weights: what
  // was made of the weights may be used when this gave OK.
  std::future<absl::StatusOr<VerifiedWeights>> verified;
  // As they are.
  std::string config_json;
  std::optional<std::string> tokenizer_json;
  std::optional<std::string> tokenizer_config_json;

  int64_t parameters() const;
};

// Reads and checks the model in `dir` (which may be a link such as run/last, or a GGUF
// file), but for what only `verified` can tell. Errors are those of ReadFile
// and CheckIsDirectory, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS,
// RESOURCE_EXHAUSTED or INTERNAL, and name the file or `dir`, and every fault; nothing
// of a declared size is allocated before it was checked.
absl::StatusOr<ModelFiles> ReadModelFiles(const std::string& dir,
                                          bool refuse_non_finite = true);

// FAILED_PRECONDITION where the files are not a checkpoint of ours.
absl::Status RequireOwn(const ModelFiles& files);

// Views of the weights in the order of the architecture's tensors, whose data must be
// waited for.
TensorViews ViewWeights(const ModelFiles& files);

}  // namespace mnemon
