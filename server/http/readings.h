// SPDX-License-Identifier: MIT
// Gauges and counters made from the engine's statistics.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "server/engine/engine.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now);

}  // namespace mnemon
