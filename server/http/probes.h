// SPDX-License-Identifier: MIT
// The paths for probes and Prometheus: GET and HEAD of /metrics, /healthz, /readyz and
// /readyz/MODEL.
#pragma once

#include <functional>
#include <string>

#include "server/engine/engine.h"
#include "server/http/http_server.h"

namespace mnemon {

// Both are called for each request and must be safe for concurrent use.
struct ProbeSources {
  std::function<EngineStats()> stats;
  std::function<std::string(const EngineStats&)> metrics;  // the body of /metrics
};

// Why the model takes no work: "draining" or "queue full"; empty: it is ready.
std::string WhyNotReady(const EngineStats& now, const ModelStats& model);

HttpHandler MakeProbes(ProbeSources sources);

}  // namespace mnemon
