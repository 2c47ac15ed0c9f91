// SPDX-License-Identifier: MIT
// The Feedback Transformer without torch: what its configuration takes, its weights,
// and what serves it. Contracts: model/registry/registry.h.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/state/state.h"
#include "model/steps/step_options.h"
#include "model/weights/weights.h"

namespace mnemon {

absl::Status ValidateFeedback(const ModelConfig& config);
std::vector<TensorShape> FeedbackTensors(const ModelConfig& config);
std::vector<ModelConfig> FeedbackVariants();
// Of its memory: all of it, or with mem_len the last of it.
Growth FeedbackGrowth(const ModelConfig& config);
int64_t FeedbackCapacity(const ModelConfig& config);
// The carry of its sequence form.
StateSpec FeedbackCarry(const ModelConfig& config);

absl::StatusOr<std::unique_ptr<Decoder>> MakeFeedbackDecoder(
    const ModelConfig& config, const TensorViews& views, const StepOptions& options);

}  // namespace mnemon
