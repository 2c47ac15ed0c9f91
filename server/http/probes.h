// SPDX-License-Identifier: MIT
// The paths for probes and Prometheus: GET and HEAD of /metrics, /healthz, /readyz and
// /readyz/MODEL.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "server/engine/engine.h"
#include "server/http/http_message.h"

namespace mnemon {

// All are called for each request and must be safe for concurrent use.
struct ProbeSources {
  std::function<EngineStats()> stats;
  std::function<std::string(const EngineStats&)> metrics;  // the body of /metrics
  // Why the process takes no work, whatever its models do, and why it is not alive, a
  // reason to restart it; both empty where there is none, or no function.
  std::function<std::string()> unready = nullptr;
  std::function<std::string()> dead = nullptr;
};

// Whether the path belongs to the probes.
bool IsProbe(std::string_view path);

// The answer to a request of a probe.
HttpResponse AnswerProbe(const ProbeSources& sources, const HttpRequest& request);

}  // namespace mnemon
