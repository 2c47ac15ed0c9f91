// SPDX-License-Identifier: MIT
#include "server/service/call_services.h"

#include "base/status_macros.h"

namespace mnemon {

absl::StatusOr<std::string> ServingModel(Engine& engine, const std::string& session,
                                         const std::string& model) {
  if (!session.empty()) {
    return engine.ModelOfSession(session);
  }
  MNEMON_ASSIGN_OR_RETURN(ModelFacts facts, engine.GetModel(model));
  return facts.name;
}

void RecordNames(CallProgress& progress, Engine& engine, const std::string& session,
                 const std::string& model) {
  progress.SetSession(session);
  progress.SetModel(ServingModel(engine, session, model).value_or(""));
}

}  // namespace mnemon
