// SPDX-License-Identifier: MIT
// The metrics of a server: counters and histograms of events, and gauges read from the
// engine and the connections for each page. docs/operations.md lists them all.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/engine.h"
#include "server/requests/observer.h"
#include "server/service/access_record.h"
#include "server/transport/connection_table.h"

namespace mnemon {

// Labels of mnemon_build_info.
struct BuildFacts {
  std::string version;
  std::string commit;
  std::string libraries;
};

// Safe for concurrent use.
class Metrics : public EngineObserver, public CallObserver {
 public:
  // The series of `models` exist, at 0, from the start.
  static std::shared_ptr<Metrics> Create(const std::vector<ModelFacts>& models,
                                         const BuildFacts& build);

  // A page in Prometheus' text format 0.0.4. `process`: why the whole process takes no
  // work, or empty.
  virtual std::string Text(const EngineStats& now, const ConnectionCounts& connections,
                           std::string_view process) const = 0;
};

}  // namespace mnemon
