// SPDX-License-Identifier: MIT
// Decoder that runs a step program: turns segments into batches for any StepRunner.
#pragma once

#include <memory>

#include "model/compute/step_options.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

// Step form of an autoregressive model. The data of `views` must outlive the call.
// Errors as for MakeDeviceRunner.
absl::StatusOr<std::unique_ptr<Decoder>> MakeStepDecoder(const ModelDescription& model,
                                                         const TensorViews& views,
                                                         const StepOptions& options);

}  // namespace mnemon
