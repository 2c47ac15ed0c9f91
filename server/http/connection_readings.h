// SPDX-License-Identifier: MIT
// Gauges and counters made from the counts of connections.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "server/transport/connection_table.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const ConnectionCounts& now);

}  // namespace mnemon
