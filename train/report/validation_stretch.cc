// SPDX-License-Identifier: MIT
#include "train/report/validation_stretch.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "model/io/checkpoint.h"
#include "train/data/config.h"
#include "train/report/heat_map.h"
#include "train/run/training_state.h"

namespace mnemon {
namespace {

// Cuts a window at the limit.
void Shorten(Batch& window, int64_t most) {
  if (window.columns <= most) return;
  window.columns = most;
  window.inputs.resize(most);
  window.targets.resize(most);
}

}  // namespace

std::string ValidationStretch::Label(int64_t token) const {
  const Tokenizer* const tokenizer = task->tokenizer();
  if (tokenizer == nullptr) return StrCat(token);
  return TokenLabel(tokenizer->TokenBytes(static_cast<int32_t>(token)));
}

absl::StatusOr<ValidationStretch> ReadValidationStretch(const std::string& run,
                                                        const StretchLimits& limits) {
  MNEMON_ASSIGN_OR_RETURN(const std::string toml, ReadTrainingFile(run, "config.toml"));
  MNEMON_ASSIGN_OR_RETURN(
      const TrainConfig config,
      ParseTrainConfig(toml, StrCat(run, ": training/config.toml"), {}));
  MNEMON_ASSIGN_OR_RETURN(const std::string json, ReadTrainingFile(run, "state.json"));
  MNEMON_ASSIGN_OR_RETURN(
      const TrainingState state,
      ParseTrainingState(json, StrCat(run, ": training/state.json")));
  ValidationStretch stretch;
  MNEMON_ASSIGN_OR_RETURN(stretch.task, LoadTask(config));
  if (stretch.task->sha256() != state.text_sha256) {
    return absl::FailedPreconditionError(
        StrCat(Quoted(config.data.text), " has changed since training"));
  }
  DataOptions options = config.data;
  options.batch = 1;
  if (options.task == TaskKind::kText) {
    // Consecutive windows.
    options.loader = LoaderKind::kSequential;
    options.seq_len = std::min(options.seq_len, limits.window_tokens);
  }
  MNEMON_ASSIGN_OR_RETURN(
      const std::unique_ptr<Loader> loader,
      stretch.task->MakeLoader(options, LoaderUse::kValidation, config.seed));
  const int64_t count = std::min(limits.windows, loader->batches_per_pass());
  for (int64_t i = 0; i < count; ++i) {
    MNEMON_ASSIGN_OR_RETURN(stretch.windows.emplace_back(), loader->Get(0, i));
    Shorten(stretch.windows.back(), limits.window_tokens);
  }
  // A text may end with a window of hardly any tokens.
  if (count > 1 && stretch.windows.back().columns < stretch.windows.front().columns) {
    stretch.windows.pop_back();
  }
  return stretch;
}

}  // namespace mnemon
