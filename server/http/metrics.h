// SPDX-License-Identifier: MIT
// What /metrics says: counters and histograms that grow as things happen, and gauges
// read when somebody asks. docs/operations.md lists them all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/observer.h"

namespace mnemon {

// Labels of mnemon_build_info.
struct BuildFacts {
  std::string version;
  std::string commit;
  std::string libraries;
};

// How one gRPC call ended.
struct RpcFacts {
  std::string method;  // "mnemon.v1.Generation/Generate"; of a bounded set
  std::string status;  // "OK", "NOT_FOUND", ...
  Seconds took{0};
  int64_t sent_bytes = 0;  // of messages
  int64_t received_bytes = 0;
};

// Safe for concurrent use.
class Metrics : public EngineObserver {
 public:
  // Shared as an observer is. Series of `models` exist, at 0, from the start.
  static std::shared_ptr<Metrics> Create(const std::vector<ModelFacts>& models,
                                         const BuildFacts& build);

  virtual void OnRpcStarted(const std::string& method) = 0;
  virtual void OnRpcEnded(const RpcFacts& facts) = 0;

  // Everything in Prometheus' text format 0.0.4.
  virtual std::string Text(const EngineStats& now) const = 0;
};

}  // namespace mnemon
