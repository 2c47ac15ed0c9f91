// SPDX-License-Identifier: MIT
// The decoder of a step program: from segments to batches, whatever runs them.
#pragma once

#include <memory>

#include "model/compute/step_options.h"
#include "model/decoder/decoder.h"
#include "model/description/description.h"

namespace mnemon {

// The step form of a model that takes no whole sequences. What `views` show must
// outlive the call. The errors of MakeDeviceRunner.
absl::StatusOr<std::unique_ptr<Decoder>> MakeStepDecoder(const ModelDescription& model,
                                                         const TensorViews& views,
                                                         const StepOptions& options);

}  // namespace mnemon
