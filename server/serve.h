// SPDX-License-Identifier: MIT
// The run of a server whose models are loaded: start, signals, shutdown.
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

// Why the process takes no work, whatever its models do: "log blocked" or empty.
std::string WhyProcessUnready(const LogCounts& log);

struct ServeOptions {
  Engine::Options engine;
  ServiceOptions service;
  RpcOptions rpc;
  // "host:port" of the HTTP server (probes.h); empty: none.
  std::string http = "127.0.0.1:8000";
  bool http_api = true;                   // beside the probes: gateway.h
  std::vector<std::string> http_origins;  // see GatewayOptions
  std::string http_port_file;             // gets the port of http; empty: none
  std::string port_file;  // gets the port once the server listens; empty: none
  std::string libraries;  // for mnemon_build_info
  // Where sessions outlive the process; empty: in memory alone.
  std::string data_dir;
  // All memory of the server, of which `engine` has its part: see memory_plan.h.
  int64_t memory = DefaultMemory();
};

// Serves until SIGINT, SIGTERM or SIGHUP, which drain as Admin.Drain does
// (service/drain.h), with `rpc.grace`, or go on with the drain that there is. From then
// on `limit` holds. Returns OK once all is drained; an error when the server cannot
// start.
absl::Status Serve(std::vector<EngineModel> models, const ServeOptions& options,
                   SignalWaiter& signals, ShutdownLimit& limit);

}  // namespace mnemon
