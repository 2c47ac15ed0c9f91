// SPDX-License-Identifier: MIT
// Gauges and counters made from the statistics of sessions in a store.
#pragma once

#include <vector>

#include <prometheus/metric_family.h>

#include "server/durability/store_stats.h"

namespace mnemon {

std::vector<prometheus::MetricFamily> ReadingsOf(const PersistenceStats& now);

}  // namespace mnemon
