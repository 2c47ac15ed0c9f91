// SPDX-License-Identifier: MIT
// What the handlers of all calls share.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/service/admission.h"
#include "server/service/call_progress.h"
#include "server/service/handler_threads.h"
#include "server/service/open_calls.h"

namespace mnemon {

// All outlive the calls.
struct CallServices {
  Engine& engine;
  OpenCalls& calls;
  Admission& admission;
  HandlerThreads& handlers;  // for all that looks for a session
};

// The name of the model that serves a call: that of the session, or the one named,
// which may be empty when one is loaded. The errors are those of
// Engine::ModelOfSession, GetModel.
absl::StatusOr<std::string> ServingModel(Engine& engine, const std::string& session,
                                         const std::string& model);

// Enters the session (an id) and the model that a request names into the record of its
// call, as far as they are known; either may be empty.
void RecordNames(CallProgress& progress, Engine& engine, const std::string& session,
                 const std::string& model);

}  // namespace mnemon
