// SPDX-License-Identifier: MIT
// The paths for probes and Prometheus: GET and HEAD of /metrics, /healthz, /readyz and
// /readyz/MODEL.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "server/engine/engine.h"
#include "server/http/http_exchange.h"

namespace mnemon {

// Called for each request; safe for concurrent use.
struct ProbeSources {
  std::function<EngineStats()> stats;
  std::function<std::string(const EngineStats&)> metrics;  // the body of /metrics
  // Why the whole process takes no work, and why it must be restarted; empty: it works.
  // Without a function it always does.
  std::function<std::string()> unready = nullptr;
  std::function<std::string()> dead = nullptr;
};

bool IsProbe(std::string_view path);

HttpResponse AnswerProbe(const ProbeSources& sources, const HttpRequest& request);

}  // namespace mnemon
