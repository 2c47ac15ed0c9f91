// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "model/compute/step_options.h"

namespace mnemon {

// Id of a step form or predictor with these options: see Decoder::numerics_id().
std::string StepNumericsId(const StepOptions& options);

}  // namespace mnemon
