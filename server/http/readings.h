// SPDX-License-Identifier: MIT
// Gauges and counters made from the statistics of the engine and of the log, and from
// the reason, or none, why the whole process takes no work.
#pragma once

#include <string_view>
#include <vector>

#include <prometheus/metric_family.h>

#include "base/log.h"
#include "server/engine/engine.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now,
                                                 const LogCounts& log,
                                                 std::string_view process);

}  // namespace mnemon
