// SPDX-License-Identifier: MIT
#include "server/engine/model_table.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "server/requests/engine_errors.h"

namespace mnemon {

absl::Status ModelTable::Start(const std::vector<EngineModel>& models,
                               const std::shared_ptr<const EngineContext>& context) {
  for (size_t i = 0; i < models.size(); ++i) {
    Runner runner;
    if (models[i].decoder) {
      MNEMON_ASSIGN_OR_RETURN(runner.decoder,
                              ModelRunner::Start(i, models[i], context));
    } else {
      MNEMON_ASSIGN_OR_RETURN(runner.predictor,
                              PredictRunner::Start(i, models[i], context));
    }
    runners_.push_back(std::move(runner));
  }
  return absl::OkStatus();
}

void ModelTable::Stop() {
  for (const Runner& runner : runners_) {
    runner.decoder ? runner.decoder->Stop() : runner.predictor->Stop();
  }
}

absl::StatusOr<size_t> ModelTable::Find(const std::string& name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < runners_.size(); ++i) {
    const std::string& known = runners_[i].model().facts.name;
    const bool is_default = runners_.size() == 1 || known == kDefaultModel;
    if (known == name || (name.empty() && is_default)) return i;
    names.push_back(known);
  }
  if (name.empty()) {
    return InvalidField(
        "model", StrCat("several models are loaded, and none is called ", kDefaultModel,
                        ": name one of ", StrJoin(names, ", ")));
  }
  return MakeError(absl::StatusCode::kNotFound,
                   StrCat("model ", Quoted(name),
                          " is not loaded; loaded models: ", StrJoin(names, ", ")),
                   {.reason = "MODEL_NOT_FOUND", .field = "model"});
}

absl::StatusOr<size_t> ModelTable::FindDecoder(const std::string& name) const {
  MNEMON_ASSIGN_OR_RETURN(const size_t index, Find(name));
  if (runners_[index].decoder) return index;
  return engine_errors::WrongKind(model(index).facts.name,
                                  "takes whole sequences: use Predict");
}

void ModelTable::Drain() {
  draining_ = true;
  for (const Runner& runner : runners_) {
    runner.decoder ? runner.decoder->Drain() : runner.predictor->Drain();
  }
}

absl::Status ModelTable::CheckOpen() const {
  return draining_ ? engine_errors::Draining() : absl::OkStatus();
}

bool ModelTable::WaitIdle(std::chrono::steady_clock::time_point deadline) const {
  return std::ranges::all_of(runners_, [&](const Runner& runner) {
    return runner.decoder ? runner.decoder->WaitIdle(deadline)
                          : runner.predictor->WaitIdle(deadline);
  });
}

}  // namespace mnemon
