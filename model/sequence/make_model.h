// SPDX-License-Identifier: MIT
// Makers of sequence forms and of their decoders and predictors, for the trainer, tests
// and the sequence module.
#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "absl/status/statusor.h"
#include "model/decoder/decoder.h"
#include "model/families/config.h"
#include "model/program/make_decoder.h"
#include "model/sequence/model.h"

namespace mnemon {

// The model with uninitialised weights. RESOURCE_EXHAUSTED without memory. REQUIRES:
// CheckDescription accepts it.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelDescription& model);
// The model of a configuration. Errors of DescribeModel.
absl::StatusOr<std::unique_ptr<Model>> MakeModel(const ModelConfig& config);

// Copies the data of `views`, all tensors of the model, into its weights; if a tensor
// has more rows, the first ones. Throws std::bad_alloc or c10::Error.
void CopyWeights(const TensorViews& views, Model& model);

// The default decoder on `device`, with copies of the weights in `views`.
absl::StatusOr<std::unique_ptr<Decoder>> MakeSequenceDecoder(
    const ModelDescription& description, const TensorViews& views, at::Device device);

// The decoder or the predictor for `model`. It keeps copies of the weights; only the
// default decoder, which serves if there is no step form, if the options ask for it,
// and on a GPU, needs the model and its weights. A predictor computes on the CPU
// wherever the model is. FAILED_PRECONDITION for a model of the other kind.
absl::StatusOr<std::unique_ptr<Decoder>> MakeDecoder(
    const Model& model, const DecoderOptions& options = {});
absl::StatusOr<std::unique_ptr<Predictor>> MakePredictor(
    const Model& model, const DecoderOptions& options = {});

}  // namespace mnemon
