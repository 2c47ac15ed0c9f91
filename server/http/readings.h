// SPDX-License-Identifier: MIT
// What is read from the engine when somebody asks.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "server/engine/engine.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const EngineStats& now);

}  // namespace mnemon
