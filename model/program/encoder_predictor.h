// SPDX-License-Identifier: MIT
// What serves a model of whole sequences on the CPU.
#pragma once

#include <memory>

#include "model/compute/step_options.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

// What `views` show must outlive the call.
std::unique_ptr<Predictor> MakeEncoderPredictor(const ModelDescription& model,
                                                const TensorViews& views,
                                                const StepOptions& options);

}  // namespace mnemon
