// SPDX-License-Identifier: MIT
// The decoder of a step program: from segments to batches, whatever runs them.
#pragma once

#include <functional>
#include <memory>

#include "model/decoder/decoder.h"
#include "model/program/step_program.h"
#include "model/steps/step_options.h"
#include "model/steps/step_weights.h"

namespace mnemon {

// A step form: what a session's state is, and how a program is made of the weights.
struct StepForm {
  StateSpec carry_spec;  // of the sequence form
  StateSpec spec;
  // Asks for weights, which the decoder packs afterwards.
  std::function<StepProgram(const StateSpec& spec, StepWeights& weights)> program;
};

// What `views` show must outlive the call. The errors of MakeDeviceRunner.
absl::StatusOr<std::unique_ptr<Decoder>> MakeStepDecoder(const ModelConfig& config,
                                                         StepForm form,
                                                         const TensorViews& views,
                                                         const StepOptions& options);

}  // namespace mnemon
