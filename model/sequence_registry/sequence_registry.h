// SPDX-License-Identifier: MIT
// The sequence forms of the architectures: an explicit table in sequence_registry.cc,
// beside that of model/registry, for the trainer, tests and the sequence module.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/decoder/decoder.h"
#include "model/registry/registry.h"
#include "model/sequence/model.h"

namespace mnemon {

// Validates, then makes the model with uninitialised weights. RESOURCE_EXHAUSTED when
// memory does not suffice.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// The default decoder with copies of the weights that `views` show, all tensors of
// `config`, on `device`.
absl::StatusOr<std::unique_ptr<Decoder>> MakeSequenceDecoder(const ModelConfig& config,
                                                             const TensorViews& views,
                                                             at::Device device);

// The decoder or the predictor that serves `model`; of its own weights it keeps copies,
// but the default decoder, which serves where there is no step form, where the options
// ask for it and on a GPU, needs the model and its weights. A predictor computes on the
// CPU wherever the model is. FAILED_PRECONDITION for a model of the other kind.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
    const Model& model, const DecoderOptions& options = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const Model& model, const DecoderOptions& options = {});

}  // namespace mnemon
