// SPDX-License-Identifier: MIT
// The curves of several runs together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/report_page.h"
#include "train/run_record.h"

namespace mnemon {

// Loss over updates and over time, learning rate, gradient norm, tokens per second, and
// accuracy where a run has one. Run i has colour i.
std::vector<Figure> DrawRunCurves(std::span<const RunRecord> runs);

}  // namespace mnemon
