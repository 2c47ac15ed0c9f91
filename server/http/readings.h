// SPDX-License-Identifier: MIT
// Gauges and counters whose values are read when a page of metrics is made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "base/log.h"
#include "server/durability/store_stats.h"
#include "server/engine/engine.h"
#include "server/transport/connection_table.h"

namespace mnemon {

// `process`: the reason why the whole process takes no work, or empty.
std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now,
                                                 const LogCounts& log,
                                                 std::string_view process);
std::vector<prometheus::MetricFamily> ReadingsOf(const PersistenceStats& now);
std::vector<prometheus::MetricFamily> ReadingsOf(const ConnectionCounts& now);

// The metrics of the process, with the names that Prometheus' libraries use, read from
// the files below `proc`; what cannot be read is left out.
std::vector<prometheus::MetricFamily> ProcessReadings(
    const std::string& proc = "/proc");

}  // namespace mnemon
