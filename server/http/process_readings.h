// SPDX-License-Identifier: MIT
// The metrics of the process by the names that Prometheus' libraries give them.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

namespace mnemon {

// Read from the files below `proc`; what cannot be read is left out.
std::vector<prometheus::MetricFamily> ProcessReadings(
    const std::string& proc = "/proc");

}  // namespace mnemon
