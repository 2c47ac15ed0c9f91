// SPDX-License-Identifier: MIT
// Predictor on the CPU for a model of whole sequences.
#pragma once

#include <memory>

#include "model/compute/step_options.h"
#include "model/compute/weights.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

// The data of `views` must outlive the call.
std::unique_ptr<Predictor> MakeEncoderPredictor(const ModelDescription& model,
                                                const TensorViews& views,
                                                const StepOptions& options);

}  // namespace mnemon
