// SPDX-License-Identifier: MIT
// Runs a server whose models are loaded: start, signals, shutdown.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/log.h"
#include "base/process/process.h"
#include "server/engine/engine.h"
#include "server/memory_plan.h"
#include "server/rpc/server.h"
#include "server/service/service.h"
#include "server/shutdown_limit.h"

namespace mnemon {

// Why the whole process takes no work: "log blocked", or empty.
std::string WhyProcessUnready(const LogCounts& log);

struct ServeOptions {
  Engine::Options engine;
  ServiceOptions service;
  RpcOptions rpc;
  std::string http = "127.0.0.1:8000";    // of the HTTP server; empty: none
  bool http_api = true;                   // the gateway, beside the probes
  std::vector<std::string> http_origins;  // see GatewayOptions
  // Files that get the ports once the server listens; empty: none.
  std::string http_port_file;
  std::string port_file;
  std::string libraries;  // for mnemon_build_info
  std::string data_dir;   // of the store of sessions; empty: they stay in memory
  int64_t memory = DefaultMemory();  // of the server; `engine` has its part of it
};

// Serves until SIGINT, SIGTERM or SIGHUP, then drains with `rpc.grace`, as Admin.Drain
// does, or joins the drain under way; `limit` holds from then on. OK once all is
// drained; an error when the server cannot start.
absl::Status Serve(std::vector<EngineModel> models, const ServeOptions& options,
                   SignalWaiter& signals, ShutdownLimit& limit);

}  // namespace mnemon
