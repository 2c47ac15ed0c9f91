// SPDX-License-Identifier: MIT
// Gauges and counters made from the statistics of the engine and of the log.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "base/log.h"
#include "server/engine/engine.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now,
                                                 const LogCounts& log);

}  // namespace mnemon
