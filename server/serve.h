// SPDX-License-Identifier: MIT
// The life of a server whose models are loaded.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/process.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"

namespace mnemon {

struct ServeOptions {
  Engine::Options engine;
  RpcOptions rpc;
  std::string port_file;  // gets the port once the server listens; empty: none
  std::chrono::milliseconds grace{30000};
};

// Serves until SIGINT or SIGTERM: then readiness goes, new work is refused, streams
// have `grace` to finish and are ended after it. A second signal ends them at once.
// Returns OK after either; an error when the server cannot start.
absl::Status Serve(std::vector<EngineModel> models, const ServeOptions& options,
                   SignalWaiter& signals);

}  // namespace mnemon
